import { EventEmitter } from 'node:events';
import type { WebRtcTransport } from 'mediasoup/types';
import { expect, test } from 'vitest';
import { TransportGuard } from '../../../src/media/transport-guard.ts';
import { silentLog } from '../../support/gateway.ts';

const PORT = 30_000;
/** Table in which 127.0.0.1:50000 has not read 70,000 bytes. */
const UNREAD = `1: 0100007F:7530 0100007F:C350 01 ${(70_000).toString(16).padStart(8, '0')}:00000000`;

/** Guard of one transport over TCP, with looks every 2 s, and 5 s for a client that does not read. */
function open(stats: object = {}) {
  const net = { table: UNREAD };
  const timings = { transportsEveryMs: 2000, unreadForMs: 5000 };
  const guard = new TransportGuard(PORT, timings, silentLog, async () => [net.table]);
  const none = { sendBitrate: 0, rtpSendBitrate: 0, rtxSendBitrate: 0, probationSendBitrate: 0 };
  const tuple = { protocol: 'tcp', remoteIp: '127.0.0.1', remotePort: 50_000 };
  const transport = {
    id: 't',
    closed: false,
    observer: new EventEmitter(),
    iceSelectedTuple: tuple,
    getStats: async () => [{ ...none, ...stats }],
    close: () => {
      transport.closed = true;
      transport.observer.emit('close');
    },
  };
  guard.add(transport as unknown as WebRtcTransport);
  /** Looks each second, as while the memory grows. @returns true if the transport is cut */
  const watch = async (fromS: number, toS: number) => {
    for (let second = fromS; second <= toS; second += 1) await guard.look(second * 1000);
    return transport.closed;
  };
  return { guard, net, tuple, watch };
}

test('a client over TCP that does not read for 5 s is cut', async () => {
  const { guard, watch } = open();
  expect(await watch(0, 5)).toBe(false);
  expect(await watch(6, 6)).toBe(true);
  expect(guard.size).toBe(0);
});

test('one that reads meanwhile is not', async () => {
  const { net, watch } = open();
  expect(await watch(0, 3)).toBe(false);
  net.table = '';
  expect(await watch(4, 5)).toBe(false);
  net.table = UNREAD;
  expect(await watch(6, 11)).toBe(false);
});

test('one that had not read when an earlier watch ended is not', async () => {
  const { watch } = open();
  expect(await watch(0, 3)).toBe(false);
  expect(await watch(3600, 3603)).toBe(false);
});

test('one that has gone to UDP and back is not', async () => {
  const { tuple, watch } = open();
  expect(await watch(0, 3)).toBe(false);
  tuple.protocol = 'udp';
  expect(await watch(4, 5)).toBe(false);
  tuple.protocol = 'tcp';
  expect(await watch(6, 9)).toBe(false);
});

test.each([
  // 250 consumers of 100 packets a second, with 16 bytes of SRTP each, and RTCP.
  [3_300_000, false],
  [8_000_000, true],
])('%i bit/s beside the sound of a client: cut %s', async (answersBps, isCut) => {
  const rtpSendBitrate = 9_000_000;
  const { net, watch } = open({ sendBitrate: rtpSendBitrate + answersBps, rtpSendBitrate });
  net.table = '';
  expect(await watch(0, 0)).toBe(isCut);
});
