import { afterAll, afterEach, beforeAll } from 'vitest';
import type { TimingOverrides } from '../../config/timings.ts';
import { TestClient } from './client.ts';
import { eventually, openTestGateway, type TestGateway } from './gateway.ts';

/** Handles of a test file to its gateway. */
export type GatewayInUse = {
  /** The gateway of this file; open while a test runs. */
  readonly gateway: TestGateway;
  /** Has something closed after the test. */
  readonly keep: <T extends { close(): Promise<void> }>(part: T) => T;
  /** A client of the demo account, in the lobby unless the query says otherwise. */
  readonly connect: (query?: Record<string, string>) => Promise<TestClient>;
  /** A client that is in a room: `a`, unless the query says otherwise. */
  readonly enter: (peer: string, query?: Record<string, string>) => Promise<TestClient>;
};

/** One gateway for all the tests of a file; after each, clients are closed and nothing may be left of them. */
export function useGateway(
  environment: Record<string, string> = {},
  timings: TimingOverrides = {},
): GatewayInUse {
  let gateway: TestGateway;
  const kept: { close(): Promise<void> }[] = [];
  beforeAll(async () => {
    gateway = await openTestGateway(environment, timings);
  });
  afterEach(async () => {
    await Promise.all(kept.splice(0).map((part) => part.close()));
    await eventually('everything is let go', async () => {
      const { sessions, rooms } = gateway.counts();
      return sessions + rooms === 0 && (await gateway.countRouters()) === 0;
    });
  });
  afterAll(() => gateway.close());

  const keep = <T extends { close(): Promise<void> }>(part: T): T => {
    kept.push(part);
    return part;
  };
  const connect = async (query: Record<string, string> = {}) =>
    keep(
      await TestClient.connect(gateway.url, {
        room: '__lobby__',
        peer: 'alice',
        api_key: gateway.apiKey,
        ...query,
      }),
    );
  const enter = async (peer: string, query: Record<string, string> = {}) => {
    const client = await connect({ room: 'a', peer, audio: 'opus', ...query });
    await client.next('joined');
    return client;
  };
  return {
    get gateway() {
      return gateway;
    },
    keep,
    connect,
    enter,
  };
}
