import { expect, test } from 'vitest';
import type { Credentials } from '../../../src/accounts/authenticator.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import {
  type WhipRequest,
  WhipService,
  type WhipServiceParts,
} from '../../../src/whip/whip-service.ts';
import { WhipSession, type WhipSessionParts } from '../../../src/whip/whip-session.ts';
import type { RoomLease } from '../../../src/rooms/registry.ts';
import { readOffer } from '../../../src/whip/offer.ts';
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

/** Service with a session of the peer, to which a half is added that opens when the test says so. */
function addHalf() {
  let opened = (_media: { close: () => void } | Error) => {};
  const openInput = () =>
    new Promise((resolve, reject) => {
      opened = (media) => (media instanceof Error ? reject(media) : resolve(media));
    });
  const heard = Promise.withResolvers<void>();
  const room = {
    media: { openInput },
    iceServers: { for: () => [] },
    producers: { removeOf: () => {} },
    addBrowserProducer: () => heard.promise,
    mediaPathChanged: () => {},
    leave: () => {},
  };
  const session = new WhipSession(
    { room, release: () => {} } as unknown as RoomLease,
    {
      credentials,
      peer: 'obs',
      room: 'a',
      onHalf: () => {},
      onHalfEnded: () => {},
      onClosed: () => (state.session = undefined),
      log: { info: () => {} },
    } as unknown as WhipSessionParts,
  );
  const state: { session: object | undefined; closed: number } = { session, closed: 0 };
  const parts = {
    sessions: { get: () => state.session },
    drain: { check: () => {} },
    node: '0'.repeat(16),
    timings: {},
    accountWatch: { changes: () => 0 },
    // The first step of a new session.
    quota: { check: async () => Promise.reject(new Error('a new session')) },
  };
  const service = new WhipService(parts as unknown as WhipServiceParts);
  const sdp = recordedOffer('obs-whip');
  const request: WhipRequest = {
    kind: 'whip',
    credentials,
    room: 'a',
    peer: 'obs',
    from: undefined,
    sdp,
  };
  const done = service.open(request, readOffer(sdp, 'whip'), 0);
  const path = {
    state: 'opening',
    iceParameters: { usernameFragment: 'u', password: 'p' },
    iceCandidates: [],
    dtlsParameters: { fingerprints: [{ algorithm: 'sha-256', value: 'AA' }] },
  };
  const media = { path, producerId: 'p', close: () => void (state.closed += 1) };
  const hear = () => heard.resolve();
  return {
    session,
    state,
    done,
    media,
    hear,
    open: (result: typeof media | Error) => opened(result),
  };
}

test('a session that ends while a half is added to it is followed by a new one', async () => {
  const { session, state, done, media, open } = addHalf();
  await new Promise(setImmediate);
  session.fail(new PartylineError('media_lost', 'its media has ended'));
  open(media);
  await expect(done).rejects.toThrow('a new session');
  expect(state.closed).toBe(1);
});

test('so is one whose room has closed its media', async () => {
  const { session, done, open } = addHalf();
  await new Promise(setImmediate);
  session.fail(new PartylineError('media_lost', 'its media has ended'));
  open(new Error('router closed'));
  await expect(done).rejects.toThrow('a new session');
});

test('a session that another has replaced while a half is added to it is not', async () => {
  const { session, state, done, media, open } = addHalf();
  await new Promise(setImmediate);
  session.replace();
  state.session = {};
  open(media);
  await expect(done).rejects.toMatchObject({ code: 'replaced' });
  expect(state.closed).toBe(1);
});

test.each([
  ['replaced by a connection to another node', 'replaced'],
  ['closed by the operator', 'forbidden'],
] as const)('a session that is %s while a half is added to it is not', async (_, code) => {
  const { session, state, done, media, open } = addHalf();
  await new Promise(setImmediate);
  session.fail(new PartylineError(code, 'ended by others'));
  open(media);
  await expect(done).rejects.toMatchObject({ code });
  expect(state.closed).toBe(1);
});

test.each([
  ['replaced', new PartylineError('replaced', 'ended by others'), 'replaced'],
  ['ended with its media', new PartylineError('media_lost', 'its media has ended'), 'media_lost'],
])(
  'a session that is %s while its half is made heard is not answered as if it lived',
  async (_, fault, code) => {
    const { session, state, done, media, hear, open } = addHalf();
    await new Promise(setImmediate);
    open(media);
    await new Promise(setImmediate);
    session.fail(fault);
    hear();
    await expect(done).rejects.toMatchObject({ code });
    expect(state.closed).toBeGreaterThan(0);
  },
);

test('a half whose media does not open is refused', async () => {
  const { done, open } = addHalf();
  await new Promise(setImmediate);
  open(new Error('no port'));
  await expect(done).rejects.toThrow('no port');
});

/** Service on which a peer that has another connection opens its first half, with media that the test gives. @returns what was done for it */
async function openNew(openInput: () => Promise<object>) {
  const done: string[] = [];
  const note = async (what: string) => void done.push(what);
  const room = { media: { openInput } };
  let isDraining = false;
  const parts = {
    node: '0'.repeat(16),
    sessions: { get: () => undefined },
    quota: { check: async () => {} },
    rooms: { acquire: async () => ({ room, release: () => void note('room released') }) },
    leases: {
      admitHalf: async () => {
        await note('admitted');
        isDraining = true;
        return { order: 1, lastPlace: { sessionId: 's', room: 'a', kind: 'websocket' } };
      },
      release: () => note('released'),
      withdraw: () => note('withdrawn'),
    },
    takeover: { checkNewest: () => {}, arrived: () => note('announced') },
    drain: {
      check: () => {
        if (isDraining) throw new Error('draining');
      },
    },
    log: { child: () => parts.log, warn: () => {} },
    timings: {},
    accountWatch: { changes: () => 0 },
  };
  const service = new WhipService(parts as unknown as WhipServiceParts);
  const sdp = recordedOffer('obs-whip');
  const request = { kind: 'whip', credentials: { account: { id: 7, plan: 'pro' } }, sdp } as const;
  const where = { room: 'a', peer: 'obs', from: undefined };
  const opening = service.open(
    { ...request, ...where, credentials: request.credentials as Credentials },
    readOffer(sdp, 'whip'),
    0,
  );
  const fault = await opening.catch((reason: unknown) => reason);
  return { done, fault };
}

test('a peer whose media cannot be opened keeps the lease and the place of its other connection', async () => {
  const { done, fault } = await openNew(async () => Promise.reject(new Error('no port')));
  expect(fault).toMatchObject({ message: 'no port' });
  expect(done).toEqual(['room released']);
});

test('a peer that is refused after its admission is not announced, and its lease is withdrawn', async () => {
  let closed = 0;
  const media = { close: () => (closed += 1) };
  const { done, fault } = await openNew(async () => media);
  expect(fault).toMatchObject({ message: 'draining' });
  expect(done).toEqual(['admitted', 'withdrawn', 'room released']);
  expect(closed).toBe(1);
});
