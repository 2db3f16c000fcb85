import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { ClientTransport, type TransportPlace } from '../../../src/media/client-transport.ts';

/** A transport as mediasoup shows it to the gateway. */
class FakeTransport extends EventEmitter {
  readonly observer = new EventEmitter();
  iceState = 'new';
  dtlsState = 'new';
  closed = false;

  async connect(): Promise<void> {}

  /** The client is connected. */
  opens(): void {
    this.iceState = 'completed';
    this.dtlsState = 'connected';
    this.emit('dtlsstatechange', this.dtlsState);
  }

  /** The client ends DTLS. */
  endsDtls(): void {
    this.dtlsState = 'closed';
    this.emit('dtlsstatechange', this.dtlsState);
  }

  /** The router closes, with its media worker: DTLS counts as closed before anyone is told. */
  routerCloses(): void {
    this.iceState = 'closed';
    this.dtlsState = 'closed';
    this.closed = true;
    this.observer.emit('close');
  }

  close(): void {
    this.routerCloses();
  }
}

async function openConnected() {
  const transport = new FakeTransport();
  const place = { router: { createWebRtcTransport: async () => transport } };
  const path = await ClientTransport.open(place as unknown as TransportPlace, {} as never);
  transport.opens();
  expect(path.state).toBe('open');
  const states: string[] = [];
  path.onChange = () => states.push(path.state);
  return { transport, path, states };
}

test('a transport whose media worker dies is dead, so that its client may open another', async () => {
  const { transport, path, states } = await openConnected();
  transport.routerCloses();
  expect(states).toEqual(['dead']);
  path.close();
  expect(path.state).toBe('ended');
});

test('a transport whose client ends DTLS has ended', async () => {
  const { transport, path, states } = await openConnected();
  transport.endsDtls();
  expect(states).toEqual(['ended']);
  path.close();
  expect(path.state).toBe('ended');
});
