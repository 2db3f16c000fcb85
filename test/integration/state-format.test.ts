import { expect, test } from 'vitest';
import {
  KEY_FINGERPRINTS,
  NODE_FORMATS,
  NODES,
  ownedKeysKey,
  STATE_FORMAT,
} from '../../src/store/keys.ts';
import type { Redis } from '../../src/store/redis.ts';
import { claimFormat, FORMAT } from '../../src/store/state-format.ts';
import { VERSION } from '../../src/version.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();
const DEAD_AFTER_MS = 500;

const open = async () => openStore(await openRedis());
const claim = (store: Redis, node?: string) => claimFormat(store, DEAD_AFTER_MS, node);
/** A node whose last heartbeat is `agoMs` old. */
const addNode = (store: Redis, node: string, format: string | undefined, agoMs = 0) =>
  store.run(async (client) => {
    await client.zAdd(NODES, { score: Date.now() - agoMs, value: node });
    if (format === undefined) await client.hSet(KEY_FINGERPRINTS, node, 'fingerprint');
    else await client.hSet(NODE_FORMATS, node, format);
  });
/** A node that sends heartbeats until the end of the test. */
async function keepNode(store: Redis, node: string, format: string | undefined) {
  await addNode(store, node, format);
  const timer = setInterval(() => {
    void store.run((client) => client.zAdd(NODES, { score: Date.now(), value: node }));
  }, DEAD_AFTER_MS / 10);
  cleanUps.push(() => {
    clearInterval(timer);
    return Promise.resolve();
  });
}

test('the format of state and node is noted, to be cleared with the node', async () => {
  const store = await open();
  await claim(store, 'self');
  await store.run(async (client) => {
    expect(await client.hGetAll(STATE_FORMAT)).toEqual({
      format: String(FORMAT),
      readable_from: String(FORMAT - 1),
      version: VERSION,
    });
    expect(await client.hGetAll(NODE_FORMATS)).toEqual({ self: `${FORMAT} ${VERSION}` });
    expect(await client.sMembers(ownedKeysKey('self'))).toEqual([NODE_FORMATS]);
  });
});

test('nodes of the same format, whatever their version, run beside each other', async () => {
  const store = await open();
  await keepNode(store, 'other', `${FORMAT} 9.9.9`);
  await claim(store, 'self');
  await expect(claim(store)).resolves.toBeUndefined();
});

test.each([
  ['a newer node', `${FORMAT + 1} 0.9.0`, '0.9.0'],
  ['a node of 0.1, which notes none', undefined, '0.1'],
])('beside %s nothing starts, and it is said in words', async (_, format, version) => {
  const store = await open();
  await keepNode(store, 'other', format);
  const words = `node other runs Partyline ${version}, beside which version ${VERSION} cannot run`;
  await expect(claim(store, 'self')).rejects.toThrow(words);
  expect(await store.run((client) => client.exists([STATE_FORMAT, ownedKeysKey('self')]))).toBe(0);
});

test.each([
  ['', 0],
  [', and whose last heartbeat lies ahead because the clock of Redis stepped back,', -3_600_000],
])('a node that was killed a moment ago%s is waited for', async (_, agoMs) => {
  const store = await open();
  await addNode(store, 'other', `${FORMAT + 1} 0.9.0`, agoMs);
  await expect(claim(store, 'self')).resolves.toBeUndefined();
});

test('state of the version after this one is taken over; state that cannot be read is refused', async () => {
  const store = await open();
  const write = (readableFrom: number) =>
    store.run((client) =>
      client.hSet(STATE_FORMAT, {
        format: FORMAT + 2,
        readable_from: readableFrom,
        version: '0.9.0',
      }),
    );
  await write(FORMAT);
  await claim(store);
  await write(FORMAT + 1);
  await expect(claim(store)).rejects.toThrow(
    `Redis holds state of Partyline 0.9.0, which version ${VERSION} cannot read`,
  );
});
