import { randomBytes } from 'node:crypto';

/** The bytes of a client, for tests that cut them where no client does. */

/** One frame as a client sends it (RFC 6455 §5.2), masked. */
export function clientFrame(
  payload: Uint8Array | string,
  { opcode = typeof payload === 'string' ? 1 : 2, isFinal = true } = {},
): Buffer {
  const bytes = Buffer.from(payload);
  const mask = randomBytes(4);
  const masked = bytes.map((byte, index) => byte ^ mask[index % 4]!);
  return Buffer.concat([headOf(opcode, isFinal, bytes.length), mask, masked]);
}

function headOf(opcode: number, isFinal: boolean, length: number): Buffer {
  const first = (isFinal ? 0x80 : 0) | opcode;
  if (length < 126) return Buffer.from([first, 0x80 | length]);
  const head = Buffer.alloc(length < 65_536 ? 4 : 10);
  head[0] = first;
  head[1] = 0x80 | (length < 65_536 ? 126 : 127);
  if (length < 65_536) head.writeUInt16BE(length, 2);
  else head.writeBigUInt64BE(BigInt(length), 2);
  return head;
}

/** The upgrade that opens a WebSocket (RFC 6455 §4.1). */
export const upgradeRequest = (address: URL): string =>
  [
    `GET ${address.pathname}${address.search} HTTP/1.1`,
    `Host: ${address.host}`,
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
    '\r\n',
  ].join('\r\n');
