import { expect, test } from 'vitest';
import { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import { Tokens } from '../../../src/accounts/tokens.ts';
import type { Redis } from '../../../src/store/redis.ts';

const OWNER = { accountId: 1, keyId: 'key' };
const REQUEST = { peer: 'ada', rooms: '*', publish: true, ttl_seconds: 3600 } as const;

const keyNamed = (id: string) =>
  JSON.stringify({ id, secret: Buffer.from(id.padEnd(32)).toString('base64url'), created_ms: 1 });

/** Tokens over a Redis with one signing key, whose answers to LRANGE can be held back. */
function openTokens() {
  let stored = [keyNamed('old')];
  let withdrawn: string[] = [];
  let held: Promise<void> | undefined;
  const client = {
    lRange: async () => {
      const answer = stored;
      await held;
      return answer;
    },
    sMembers: () => Promise.resolve(withdrawn),
  };
  const redis = { run: (commands: (of: typeof client) => unknown) => commands(client) };
  const keys = new SigningKeys(redis as unknown as Redis, { wallMs: Date.now });
  const tokens = new Tokens(keys);
  /** Holds back the answers to commands that are sent until the returned function is called. */
  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    return () => {
      held = undefined;
      resolve();
    };
  };
  /** Does what `rotate-token-key --now` does, in another process. */
  const withdraw = () => {
    stored = [keyNamed('new')];
    withdrawn = ['old'];
    return keys.reload();
  };
  return { tokens, hold, withdraw };
}

test('a token of a withdrawn key is refused, although an older answer of Redis comes after the withdrawal', async () => {
  const { tokens, hold, withdraw } = openTokens();
  const { token } = await tokens.issue(OWNER, REQUEST);
  const release = hold();
  const issuing = tokens.issue(OWNER, REQUEST);
  await withdraw();
  release();
  // The key that was read is outdated, so the token is signed with the new one.
  await expect(tokens.verify((await issuing).token)).resolves.toMatchObject({ signedBy: 'new' });
  await expect(tokens.verify(token)).rejects.toMatchObject({ code: 'unauthorized' });
});
