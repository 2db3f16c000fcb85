import { EventEmitter } from 'node:events';
import type { DtlsParameters, WebRtcTransportOptions } from 'mediasoup/types';
import { expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { ClientTransport, type TransportHost } from '../../../src/media/client-transport.ts';

/** A transport as mediasoup shows it to the gateway. */
class FakeTransport extends EventEmitter {
  readonly observer = new EventEmitter();
  /** The router that it is on. */
  readonly router = { closed: false };
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
    this.router.closed = true;
    this.close();
  }

  close(): void {
    this.iceState = 'closed';
    this.dtlsState = 'closed';
    this.closed = true;
    this.observer.emit('close');
  }
}

async function openConnected() {
  const transport = new FakeTransport();
  const createWebRtcTransport = vi.fn<(options: WebRtcTransportOptions) => Promise<FakeTransport>>(
    async () => transport,
  );
  const router = Object.assign(transport.router, { createWebRtcTransport });
  const host = { router } as unknown as TransportHost;
  const { consentMs } = DEFAULT_TIMINGS.whip;
  const dtlsParameters: DtlsParameters = { fingerprints: [] };
  const path = await ClientTransport.open(host, { dtlsParameters, consentMs });
  transport.opens();
  expect(path.state).toBe('open');
  const states: string[] = [];
  path.onChange = () => states.push(path.state);
  return { transport, path, states, asked: createWebRtcTransport.mock.lastCall?.[0] };
}

test('a transport whose media worker dies is dead, so that its client may open another', async () => {
  const { transport, path, states } = await openConnected();
  transport.routerCloses();
  expect(states).toEqual(['dead']);
  path.close();
  expect(path.state).toBe('ended');
});

test('a transport that is closed while its router lives is cut', async () => {
  const { transport, path, states } = await openConnected();
  transport.close();
  expect(states).toEqual(['cut']);
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

test('one lost consent check leaves the path open: clients check each 4 to 6 s, and consent lasts for 30 s', async () => {
  const { asked } = await openConnected();
  expect(asked?.iceConsentTimeout).toBe(30);
});
