import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';

export const SERVFAIL = 2;
export const REFUSED = 5;
const NXDOMAIN = 3;
const A = 1;

/** Addresses of type A, or codes of faults, by name, null for names without an answer; others do not exist. */
export type DnsNames = Record<string, string | number | null>;

/** Opens a DNS server that knows these names, for one test. @returns its address and port */
export async function openDns(
  names: DnsNames,
  listen: { address: string; port?: number } = { address: '127.0.0.1' },
): Promise<string> {
  const server = createSocket('udp4');
  server.on('message', (query, { port, address }) => {
    const nameEnd = query.indexOf(0, 12);
    const labels: string[] = [];
    for (let at = 12; at < nameEnd; at += query[at]! + 1) {
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!));
    }
    const name = labels.join('.');
    const found = names[name] ?? (name in names ? null : NXDOMAIN);
    if (found === null) return;
    const header = Buffer.from(query.subarray(0, nameEnd + 5));
    header[2] = 0x81;
    header[3] = 0x80 | (typeof found === 'number' ? found : 0);
    const hasAnswer = typeof found === 'string' && query.readUInt16BE(nameEnd + 1) === A;
    header.writeUInt16BE(hasAnswer ? 1 : 0, 6);
    header.writeUInt16BE(0, 10);
    const record = [0xc0, 12, 0, A, 0, 1, 0, 0, 0, 60, 0, 4];
    const answer = hasAnswer ? [...record, ...found.split('.').map(Number)] : [];
    server.send(Buffer.concat([header, Buffer.from(answer)]), port, address);
  });
  server.bind(listen);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `${listen.address}:${server.address().port}`;
}
