import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { keepIceAlive } from '../../../../../packages/client/src/webrtc/ice.ts';

beforeEach(() => {
  vi.stubGlobal('window', globalThis);
  onTestFinished(() => void vi.unstubAllGlobals());
});

test('the time for the first path begins when the gateway has answered', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const transport = { connectionState: 'new', on: () => undefined, once: () => undefined };
  const told: boolean[] = [];
  const stop = new AbortController();
  const search = keepIceAlive(
    transport as unknown as Parameters<typeof keepIceAlive>[0],
    () => new Promise(() => undefined),
    { changed: (isBroken) => told.push(isBroken), lost: () => undefined },
    stop.signal,
  );
  await vi.advanceTimersByTimeAsync(20_000);
  expect(told).toEqual([]);
  search();
  await vi.advanceTimersByTimeAsync(3900);
  expect(told).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(told).toEqual([true]);
  stop.abort();
  expect(vi.getTimerCount()).toBe(0);
});

const SERVERS = [{ urls: ['turn:a:3478'], username: 'later', credential: 'secret' }];

/** A transport whose path breaks, and what the client then does with it. */
async function breakPath(iceServers: object[] | undefined, canUpdate = true): Promise<unknown[]> {
  const done: unknown[] = [];
  let changed: (state: string) => void = () => undefined;
  const transport = {
    id: 't',
    on: (_event: string, listener: typeof changed) => (changed = listener),
    once: () => undefined,
    updateIceServers: async (servers: object) => {
      done.push(servers);
      if (!canUpdate) throw new Error('not supported');
    },
    restartIce: async (parameters: object) => void done.push(parameters),
  } as unknown as Parameters<typeof keepIceAlive>[0];
  const reply = { ice_parameters: 'new', ...(iceServers && { ice_servers: iceServers }) };
  const stop = new AbortController();
  const handlers = { changed: () => undefined, lost: (fault: unknown) => void done.push(fault) };
  keepIceAlive(transport, async () => reply as never, handlers, stop.signal);
  changed('failed');
  await expect.poll(() => done.at(-1)).toEqual({ iceParameters: 'new' });
  stop.abort();
  return done;
}

test('TURN servers that come with a restart of ICE are set before it', async () => {
  const restarted = { iceParameters: 'new' };
  expect(await breakPath(SERVERS)).toEqual([{ iceServers: SERVERS }, restarted]);
  expect(await breakPath(undefined)).toEqual([restarted]);
});

test('a browser that cannot change its TURN servers restarts ICE with those that it has', async () => {
  expect((await breakPath(SERVERS, false)).at(-1)).toEqual({ iceParameters: 'new' });
});
