import { randomBytes } from 'node:crypto';
import { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket, WebSocketServer } from 'ws';

/**
 * Makes a WebSocket of a connection whose upgrade another process has answered already: the answer of `server` is not
 * sent.
 * @param unread bytes that the other process has read, and that come before what is read here
 */
export function adoptSocket(
  server: WebSocketServer,
  stream: Socket,
  unread: Buffer,
  onUpgraded: (socket: WebSocket) => void,
): void {
  const request = new IncomingMessage(stream);
  request.method = 'GET';
  request.headers = {
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64'),
  };
  stream.write = () => true;
  server.handleUpgrade(request, stream, unread, (socket) => {
    // The method of the prototype is back.
    Reflect.deleteProperty(stream, 'write');
    onUpgraded(socket);
  });
}
