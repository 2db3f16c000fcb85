import { expect, test } from 'vitest';
import type { Credentials } from '../../../src/accounts/authenticator.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import {
  type WhipRequest,
  WhipService,
  type WhipServiceParts,
} from '../../../src/whip/whip-service.ts';
import { recordedOffer } from '../../support/offers.ts';

const credentials = { account: { id: 7 } } as Credentials;

/** A service whose turns come when the test says so. */
function openService() {
  const waiting: { accountId: number; begin: () => void }[] = [];
  const turns = {
    run: <T>(accountId: number, work: () => T) =>
      new Promise<T>((resolve) => {
        waiting.push({ accountId, begin: () => resolve((async () => work())()) });
      }),
  };
  const parts = { drain: { check: () => {} }, checkLoad: () => {}, requestLimits: { turns } };
  const service = new WhipService(parts as unknown as WhipServiceParts);
  const check = (sdp: string) => {
    const request: WhipRequest = {
      kind: 'whip',
      credentials,
      room: 'a',
      peer: 'obs',
      from: undefined,
      sdp,
    };
    return service.check(request);
  };
  return { check, waiting };
}

test('an offer is read when the turn of its account comes, once', async () => {
  const { check, waiting } = openService();
  const offer = check(recordedOffer('obs-whip'));
  expect(waiting.map(({ accountId }) => accountId)).toEqual([7]);
  waiting[0]!.begin();
  expect((await offer).opus.payloadType).toBe(111);
  expect(waiting).toHaveLength(1);
});

test('one that cannot be read is refused then', async () => {
  const { check, waiting } = openService();
  const offer = check('hello');
  waiting[0]!.begin();
  await expect(offer).rejects.toThrow(PartylineError);
});
