import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatAudioFormat } from '../../src/audio/format.ts';
import { counters } from '../../src/counters.ts';
import { leaseSettingsKey } from '../../src/store/keys.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { seededRandom } from '../support/random.ts';
import { TestRedis } from '../support/redis.ts';
import { keepPlaying, opusTone, play, sampleTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';

/** Messages of unknown formats, relayed between clients that share them. */

const { createAccount, openStore, connect, cleanUps } = useStack();

const SAMPLES = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;
const PCM = formatAudioFormat(SAMPLES);
const ENVIRONMENT = { RESUME_MS: '15000', MEDIA_WORKERS: '1' };
const TIMINGS = {
  budgets: { tellAfterMs: 50, closeAfterMs: 500 },
  usage: { freshMs: 50, writeEveryMs: 50 },
};

let redis: TestRedis;
const nodes: TestGateway[] = [];
beforeAll(async () => {
  redis = await TestRedis.start();
  for (let i = 0; i < 2; i += 1) {
    const node = await openTestGateway({ ...ENVIRONMENT, REDIS_URL: redis.url }, TIMINGS);
    nodes.push({ ...node, apiKey: nodes[0]?.apiKey ?? node.apiKey });
  }
});
afterAll(async () => {
  for (const node of nodes.toReversed()) await node.close();
  await redis.kill();
});

/** Another room for each test, so that nothing of one is heard in the next. */
let rooms = 0;
const newRoom = () => `room ${(rooms += 1)}`;

/** As encrypted bytes are: of no format. */
function encrypted(seed: number, lengths: number[]): Buffer[] {
  const random = seededRandom(seed);
  return lengths.map((length) => Buffer.from(Uint8Array.from({ length }, () => random() * 256)));
}

/** Lengths of messages, of 64 KiB some of them. */
const LENGTHS = Array.from({ length: 40 }, (_, i) => (i % 15 === 14 ? 64 * 1024 : 1 + i * 7));

const send = (client: TestClient, messages: Buffer[]) => {
  for (const message of messages) client.sendAudio(message);
};

/** Waits until a client has heard as many frames as are expected, and compares them. */
async function hears(client: TestClient, frames: Buffer[]): Promise<void> {
  await eventually(`${frames.length} frames`, () => client.frames.length >= frames.length);
  // Compared at once: what differs in megabytes takes minutes to print.
  expect(client.frames.map((frame) => frame.length)).toEqual(frames.map(({ length }) => length));
  expect(Buffer.compare(Buffer.concat(client.frames), Buffer.concat(frames))).toBe(0);
}

const isToldUnknown = ({ messages }: TestClient) =>
  messages.some(({ type }) => type === 'audio_unknown');

const speakersIn = ({ messages }: TestClient) =>
  messages.flatMap((message) => (message.type === 'speaking' ? message.peers : []));

/** Returns the peers that speak now, as far as a client was told. */
function speakersOf({ messages }: TestClient): string[] {
  const told = messages.findLast((message) => message.type === 'speaking');
  return told?.peers.map(({ peer }) => peer) ?? [];
}

/** Waits until a client is told that a peer of an unknown format sends. */
const seesMessages = (client: TestClient) =>
  eventually('they are seen to speak', () =>
    speakersIn(client).some(({ level_dbov: level }) => level === undefined),
  );

describe.each(['one node', 'two nodes'])('on %s', (where) => {
  const nodeOf = (index: number) => nodes[where === 'one node' ? 0 : index % 2]!;

  /** Clients in a room, dealt out to the nodes; all see each other. */
  async function enterAll(
    room: string,
    queries: Record<string, Record<string, string | undefined>>,
  ): Promise<TestClient[]> {
    const clients: TestClient[] = [];
    for (const [index, [peer, query]] of Object.entries(queries).entries()) {
      const client = await connect(nodeOf(index), { room, peer, audio: undefined, ...query });
      await client.next('joined');
      clients.push(client);
    }
    const others = clients.length - 1;
    const isComplete = ({ messages }: TestClient) =>
      messages.reduce((seen, message) => {
        if (message.type === 'joined') return seen + message.peers.length;
        return message.type === 'peer_joined' ? seen + 1 : seen;
      }, 0) >= others;
    await eventually('all see each other', () => clients.every(isComplete));
    return clients;
  }

  /** Enters a room with a browser; a client that is in the room sees it. */
  async function enterBrowser(room: string, witness: TestClient) {
    const browser = await connect(nodeOf(1), { room: '__lobby__', peer: 'browser' });
    const { webrtc } = await browser.ask({ type: 'join', room, media: 'webrtc' }, 'joined');
    const media = new WebRtcClient(browser, webrtc);
    cleanUps.push(() => media.close());
    await witness.until('browser', () =>
      witness.messages.find(
        (message) => message.type === 'peer_joined' && message.kind === 'webrtc',
      ),
    );
    await media.hear();
    return { browser, media };
  }

  const OPAQUE = { audio: 'opaque' };

  test('three clients of a format of their own hear each other, byte for byte and in order, and nobody else hears them', async () => {
    const room = newRoom();
    const clients = await enterAll(room, {
      alice: OPAQUE,
      bob: OPAQUE,
      carol: { ...OPAQUE, delivery: 'forward' },
      pcm: { audio: PCM },
      opus: { audio: 'opus', delivery: 'forward' },
    });
    const [alice, bob, carol, pcm, opus] = clients as [
      TestClient,
      TestClient,
      TestClient,
      TestClient,
      TestClient,
    ];
    const { browser, media } = await enterBrowser(room, alice);
    expect((await alice.next('welcome')).audio).toMatchObject({ in: 'opaque', out: 'opaque' });
    const tone = await opusTone(1000, 0.5, 200);
    /** Plays known sound, which is heard by all others: they would have heard what came before it. */
    const playKnown = async () => {
      const before = [pcm.frames.length, media.heard.length] as const;
      const playing = keepPlaying(opus, tone);
      await eventually('known sound is heard', () =>
        [pcm.frames, media.heard].every((heard, i) => heard.length > before[i]!),
      );
      await playing.close();
    };
    await playKnown();

    const [ofAlice, ofBob] = [encrypted(1, LENGTHS), encrypted(2, LENGTHS)];
    send(alice, ofAlice);
    await hears(bob, ofAlice);
    await hears(carol, ofAlice);
    send(bob, ofBob);
    await hears(alice, ofBob);
    await hears(carol, [...ofAlice, ...ofBob]);
    for (const witness of [pcm, browser]) {
      const relayed = () => speakersIn(witness).filter(({ peer }) => peer !== 'opus');
      await eventually('they are seen to speak', () => relayed().length > 0);
      for (const speaker of relayed()) expect(speaker).toEqual({ peer: speaker.peer });
    }

    await playKnown();
    const consumers = browser.messages.filter(({ type }) => type === 'new_consumer');
    expect(consumers).toMatchObject([{ peer: 'opus' }]);
    expect([opus.frames, browser.frames]).toEqual([[], []]);
    for (const frame of pcm.frames) expect(frame).toHaveLength(640);
    const relayed = [...ofAlice, ...ofBob];
    const isRelayed = (payload: Buffer) => relayed.some((message) => message.equals(payload));
    expect(media.heard.filter(({ payload }) => isRelayed(payload))).toEqual([]);
    expect(new Set(media.heard.map(({ peer }) => peer))).toEqual(new Set(['opus']));
    await hears(carol, relayed);
    for (const client of clients) {
      expect(client.messages.filter(({ type }) => type === 'audio_unknown')).toEqual([]);
    }
  });

  test('two clients that say nothing of their format are told once, and hear each other from the first message on', async () => {
    const [alice, bob, pcm] = (await enterAll(newRoom(), {
      alice: {},
      bob: {},
      pcm: { audio: PCM },
    })) as [TestClient, TestClient, TestClient];
    const [ofAlice, ofBob] = [3, 4].map((seed) => encrypted(seed, Array(300).fill(160)));
    let sent = 0;
    while (sent < 300 && ![alice, bob].every(isToldUnknown)) {
      const next = (all: Buffer[]) => all.slice(sent, sent + 15);
      await Promise.all([play(alice, next(ofAlice!)), play(bob, next(ofBob!))]);
      sent += 15;
    }
    for (const client of [alice, bob]) {
      expect(await client.next('audio_unknown')).toMatchObject({ relayed: true });
    }
    await hears(alice, ofBob!.slice(0, sent));
    await hears(bob, ofAlice!.slice(0, sent));
    expect(pcm.frames).toEqual([]);
    const configured = await alice.ask({ type: 'configure', mute: false }, 'configured');
    expect(configured.audio).toMatchObject({ in: 'opaque', out: 'opaque' });
    expect(alice.messages.filter(({ type }) => type === 'audio_unknown')).toHaveLength(1);
  });

  test('a client that says nothing of its format is heard by one that sends nothing, and not by a browser', async () => {
    const room = newRoom();
    const [alice, bob, opus] = (await enterAll(room, {
      alice: {},
      bob: {},
      opus: { audio: 'opus' },
    })) as [TestClient, TestClient, TestClient];
    const { browser, media } = await enterBrowser(room, alice);
    const said = encrypted(17, Array(300).fill(160));
    let sent = 0;
    while (sent < said.length && !isToldUnknown(alice)) {
      await play(alice, said.slice(sent, sent + 15));
      sent += 15;
    }
    await hears(bob, said.slice(0, sent));
    await seesMessages(browser);
    await play(opus, await opusTone(1000, 0.5, 500));
    await eventually('known sound is heard', () => media.heard.length > 0);
    expect(new Set(media.heard.map(({ peer }) => peer))).toEqual(new Set(['opus']));
    expect(browser.frames).toEqual([]);
    await hears(bob, said.slice(0, sent));
  });

  test('a client that sends samples and asks for messages hears them, and no known sound', async () => {
    const [alice, opus, asking, witness] = (await enterAll(newRoom(), {
      alice: OPAQUE,
      opus: { audio: 'opus' },
      asking: { audio: PCM, audio_out: 'opaque' },
      witness: { audio: PCM },
    })) as [TestClient, TestClient, TestClient, TestClient];
    expect((await asking.next('welcome')).audio).toMatchObject({ in: PCM, out: 'opaque' });
    const said = encrypted(19, [100, 64 * 1024, 200]);
    await play(opus, await opusTone(1000, 0.5, 200));
    await eventually('known sound is heard', () => witness.frames.length > 0);
    send(alice, said);
    await hears(asking, said);
    await play(asking, sampleTone(SAMPLES, 1000, 0.5, 200));
    await eventually('its own is heard', () => speakersOf(witness).includes('asking'));
    await play(opus, await opusTone(1000, 0.5, 200));
    send(alice, said);
    await hears(asking, [...said, ...said]);
  });

  test('a client that has stopped sending messages is no speaker any more', async () => {
    const [alice, bob] = (await enterAll(newRoom(), { alice: OPAQUE, bob: OPAQUE })) as [
      TestClient,
      TestClient,
    ];
    send(alice, encrypted(20, [100, 200]));
    await seesMessages(bob);
    expect(speakersOf(bob)).toEqual(['alice']);
    await eventually('the end', () => speakersOf(bob).length === 0);
  });

  test('a client that has said and sent nothing hears what comes first, and nothing of the other kind', async () => {
    const [alice, opus, first] = (await enterAll(newRoom(), {
      alice: OPAQUE,
      opus: { audio: 'opus' },
      first: {},
    })) as [TestClient, TestClient, TestClient];
    const said = encrypted(5, [100, 200]);
    send(alice, said);
    await hears(first, said);
    const tone = await opusTone(1000, 0.5, 200);
    await play(opus, tone);
    send(alice, said);
    await hears(first, [...said, ...said]);
    // It sends sound of a known format: it hears known sound.
    const own = await opusTone(500, 0.5, 3000);
    const isFound = () => first.messages.some(({ type }) => type === 'audio_detected');
    while (own.length > 0 && !isFound()) await play(first, own.splice(0, 10));
    expect(await first.next('audio_detected')).toMatchObject({ in: 'opus', out: 'opus' });
    const before = first.frames.length;
    await play(opus, tone);
    await eventually('it hears known sound', () => first.frames.length >= before + tone.length);
    send(alice, said);
    await play(opus, tone);
    await eventually('and goes on to', () => first.frames.length >= before + 2 * tone.length);
    for (const frame of first.frames.slice(before)) {
      expect(said.some((message) => message.equals(frame))).toBe(false);
    }
  });

  test('one that has heard known sound hears no messages', async () => {
    const [alice, opus, first, friend] = (await enterAll(newRoom(), {
      alice: OPAQUE,
      opus: { audio: 'opus' },
      first: {},
      friend: OPAQUE,
    })) as [TestClient, TestClient, TestClient, TestClient];
    const tone = await opusTone(1000, 0.5, 200);
    await play(opus, tone);
    await eventually('known sound is heard', () => first.frames.length === tone.length);
    const said = encrypted(6, [100, 200]);
    send(alice, said);
    await hears(friend, said);
    await seesMessages(first);
    expect(first.frames).toEqual(tone);
  });

  test('one that has heard known sound, and resumes its session, hears no messages then either', async () => {
    const { id, apiKey } = await createAccount(redis, 'pro');
    const ofAccount = { api_key: apiKey };
    const [alice, opus, first, friend] = (await enterAll(newRoom(), {
      alice: { ...ofAccount, ...OPAQUE },
      opus: { ...ofAccount, audio: 'opus' },
      first: ofAccount,
      friend: { ...ofAccount, ...OPAQUE },
    })) as [TestClient, TestClient, TestClient, TestClient];
    const tone = await opusTone(1000, 0.5, 200);
    await play(opus, tone);
    await eventually('known sound is heard', () => first.frames.length === tone.length);
    const store = await openStore(redis);
    const stored = () => store.run((client) => client.hGet(leaseSettingsKey(id), 'first'));
    await expect.poll(stored).toContain('"first_heard":"sound"');

    const { session_id, resume_token } = await first.next('welcome');
    first.vanish();
    await first.closed;
    const session = { peer: 'first', session_id, resume_token, audio: undefined, ...ofAccount };
    const again = await connect(nodeOf(1), { room: '__lobby__', ...session });
    expect(await again.next('welcome')).toMatchObject({ resumed: true });
    await again.next('joined');
    const said = encrypted(16, [100, 200]);
    send(alice, said);
    await hears(friend, said);
    await seesMessages(again);
    await play(opus, tone);
    await eventually('known sound is heard', () => again.frames.length > 0);
    expect(again.frames.filter((frame) => said.some((each) => each.equals(frame)))).toEqual([]);
  });

  test.each([{ default_audio: 'pcmu' }, { pinned_audio: 'pcmu' }])(
    'one that says nothing hears no messages if its account has %o',
    async (extra) => {
      const { apiKey } = await createAccount(redis, 'pro', extra);
      const ofAccount = { api_key: apiKey };
      const room = newRoom();
      const [stranger] = (await enterAll(room, { stranger: OPAQUE })) as [TestClient];
      const [alice, silent, friend] = (await enterAll(room, {
        alice: { ...ofAccount, ...OPAQUE },
        silent: ofAccount,
        friend: { ...ofAccount, ...OPAQUE },
      })) as [TestClient, TestClient, TestClient];
      const said = encrypted(6, [100, 200]);
      // In the room of this name of another account.
      send(stranger, said);
      send(alice, said);
      await hears(friend, said);
      await seesMessages(silent);
      expect(silent.frames).toEqual([]);
    },
  );

  test('messages are counted as frames, and their peers are metered', async () => {
    const { apiKey } = await createAccount(redis, 'pro');
    const ofAccount = { api_key: apiKey, ...OPAQUE };
    const [alice, bob] = (await enterAll(newRoom(), { alice: ofAccount, bob: ofAccount })) as [
      TestClient,
      TestClient,
    ];
    const { framesIn, framesOut, relayed } = structuredClone(counters);
    const said = encrypted(15, [100, 64 * 1024, 200]);
    send(alice, said);
    await hears(bob, said);
    expect(counters).toMatchObject({ framesIn: framesIn + 3, framesOut: framesOut + 3 });
    const toNodes = where === 'two nodes' ? 3 : 0;
    expect(counters.relayed).toEqual({ in: relayed.in + toNodes, out: relayed.out + toNodes });
    const headers = { authorization: `Bearer ${apiKey}` };
    const readMinutes = async () => {
      const response = await fetch(`${nodeOf(0).url}/api/me`, { headers });
      const { summary } = (await response.json()) as { summary: { total_minutes: number } };
      return summary.total_minutes;
    };
    await expect.poll(readMinutes).toBeGreaterThan(0);
  });

  test('more bytes than any sound needs are told and closed, and the others hear on', async () => {
    const [flooder, alice, bob, carol] = (await enterAll(newRoom(), {
      flooder: OPAQUE,
      alice: OPAQUE,
      bob: OPAQUE,
      carol: OPAQUE,
    })) as [TestClient, TestClient, TestClient, TestClient];
    const [big] = encrypted(10, [64 * 1024]) as [Buffer];
    const flood = setInterval(() => {
      for (let i = 0; i < 20; i += 1) flooder.sendAudio(big);
    }, 10);
    cleanUps.push(() => clearInterval(flood));
    expect(await flooder.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(await flooder.closed).toBe(4429);
    clearInterval(flood);
    const said = encrypted(11, [10, 20, 30]);
    send(alice, said);
    await eventually('all of it', () =>
      [bob, carol].every(({ frames }) => said.every((m) => frames.some((f) => f.equals(m)))),
    );
  });

  test('mute, volume 0, leaving and coming back hold for them', async () => {
    const room = newRoom();
    // On the node of Bob, so that what Carol has heard has been offered to Bob as well.
    const [alice, bob, , carol] = (await enterAll(room, {
      alice: OPAQUE,
      bob: OPAQUE,
      dave: OPAQUE,
      carol: OPAQUE,
    })) as [TestClient, TestClient, TestClient, TestClient];
    const [muted, toCarol, toBoth, away, back, again] = encrypted(7, [10, 20, 30, 40, 50, 60]) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ];
    await alice.ask({ type: 'configure', mute: true }, 'configured');
    alice.sendAudio(muted);
    await alice.ask({ type: 'configure', mute: false }, 'configured');
    const configured = await bob.ask({ type: 'configure', volume: { alice: 0 } }, 'configured');
    expect(configured).not.toHaveProperty('not_applied');
    alice.sendAudio(toCarol);
    await hears(carol, [toCarol]);
    const louder = await bob.ask({ type: 'configure', volume: { alice: 2 } }, 'configured');
    expect(louder.not_applied).toEqual({ alice: 2 });
    alice.sendAudio(toBoth);
    await hears(carol, [toCarol, toBoth]);
    await hears(bob, [toBoth]);
    await bob.ask({ type: 'leave' }, 'left');
    alice.sendAudio(away);
    await hears(carol, [toCarol, toBoth, away]);
    await bob.ask({ type: 'join', room }, 'joined');
    await alice.until('bob again', () =>
      alice.messages.filter(({ type }) => type === 'peer_joined').at(3),
    );
    alice.sendAudio(back);
    await hears(bob, [toBoth, back]);
    await alice.ask({ type: 'leave' }, 'left');
    alice.sendAudio(muted);
    bob.sendAudio(muted);
    await hears(carol, [toCarol, toBoth, away, back, muted]);
    await alice.ask({ type: 'join', room }, 'joined');
    alice.sendAudio(again);
    await hears(carol, [toCarol, toBoth, away, back, muted, again]);
    await hears(bob, [toBoth, back, again]);
    bob.sendAudio(toBoth);
    await hears(alice, [toBoth]);
  });

  test('a client that resumes its session is relayed messages again, whatever its query says', async () => {
    const [alice, bob] = (await enterAll(newRoom(), { alice: OPAQUE, bob: OPAQUE })) as [
      TestClient,
      TestClient,
    ];
    const { session_id, resume_token } = await bob.next('welcome');
    const [before, after] = encrypted(8, [100, 200]) as [Buffer, Buffer];
    alice.sendAudio(before);
    await hears(bob, [before]);
    bob.vanish();
    await bob.closed;
    const again = await connect(nodeOf(0), {
      room: '__lobby__',
      peer: 'bob',
      session_id,
      resume_token,
      audio: PCM,
    });
    expect(await again.next('welcome')).toMatchObject({
      resumed: true,
      audio: { in: 'opaque', out: 'opaque' },
    });
    await again.next('joined');
    again.sendAudio(before);
    await hears(alice, [before]);
    alice.sendAudio(after);
    await hears(again, [after]);
  });

  test('a client with a token that may not publish is heard by nobody', async () => {
    const room = newRoom();
    const response = await fetch(`${nodeOf(0).url}/api/tokens`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${nodeOf(0).apiKey}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ peer: 'silent', rooms: '*', ttl_seconds: 60, publish: false }),
    });
    const { token } = (await response.json()) as { token: string };
    const [silent, alice, bob] = (await enterAll(room, {
      silent: { ...OPAQUE, api_key: undefined, token },
      alice: OPAQUE,
      bob: OPAQUE,
    })) as [TestClient, TestClient, TestClient];
    const said = encrypted(9, [100, 200]);
    send(silent, said);
    expect(await silent.next('error')).toMatchObject({ code: 'forbidden' });
    alice.sendAudio(said[0]!);
    await hears(bob, [said[0]!]);
    await hears(silent, [said[0]!]);
  });
});

test('audio that was sent in another room while its format was unknown is not heard', async () => {
  const [before, after] = [newRoom(), newRoom()];
  const bob = await connect(nodes[0]!, { room: after, peer: 'bob', audio: 'opaque' });
  await bob.next('joined');
  const alice = await connect(nodes[0]!, { room: before, audio: undefined });
  await alice.next('joined');
  const [first, ...rest] = encrypted(14, Array(300).fill(160)) as [Buffer, ...Buffer[]];
  alice.sendAudio(first);
  await alice.ask({ type: 'join', room: after }, 'joined');
  let sent = 0;
  while (sent < rest.length && !isToldUnknown(alice)) {
    await play(alice, rest.slice(sent, sent + 15));
    sent += 15;
  }
  await hears(bob, rest.slice(0, sent));
  expect(bob.frames.some((frame) => frame.equals(first))).toBe(false);
});

test('a message, a pause of 2.6 s, and a talk in an unknown format: all of it is heard', async () => {
  const room = newRoom();
  const bob = await connect(nodes[0]!, { room, peer: 'bob', audio: 'opaque' });
  await bob.next('joined');
  const alice = await connect(nodes[0]!, { room, audio: undefined });
  await alice.next('joined');
  const [first, ...talk] = encrypted(18, Array(301).fill(160)) as [Buffer, ...Buffer[]];
  alice.sendAudio(first);
  await sleep(2600);
  let sent = 0;
  while (sent < talk.length && !isToldUnknown(alice)) {
    await play(alice, talk.slice(sent, sent + 15));
    sent += 15;
  }
  expect(await alice.next('audio_unknown')).toMatchObject({ relayed: true });
  await hears(bob, [first, ...talk.slice(0, sent)]);
});

test('a client that does not read loses the oldest, counted, and hears the newest in order when it reads again', async () => {
  const room = newRoom();
  const [node] = nodes;
  const enter = async (peer: string) => {
    const client = await connect(node!, { room, peer, audio: 'opaque' });
    await client.next('joined');
    return client;
  };
  const slow = await enter('slow');
  slow.stopReading();
  const senders = [await enter('a'), await enter('b'), await enter('c'), await enter('d')];
  const before = counters.dropped.unread;
  const numbered = (number: number) => {
    const message = Buffer.alloc(64 * 1024);
    message.writeUInt32BE(number);
    return message;
  };
  let sent = 0;
  for (const sender of senders) {
    for (let i = 0; i < 50; i += 1) {
      sender.sendAudio(numbered(sent));
      sent += 1;
    }
    const count = sent;
    // One after the other, so that their messages have one order.
    const witness = senders.find((other) => other !== sender)!;
    await witness.until('the last', () =>
      witness.frames.at(-1)?.readUInt32BE() === count - 1 ? true : undefined,
    );
  }
  await eventually('something is dropped', () => counters.dropped.unread > before);
  slow.readAgain();
  await eventually('the newest', () => slow.frames.at(-1)?.readUInt32BE() === sent - 1);
  const heard = slow.frames.map((frame) => frame.readUInt32BE());
  expect(heard).toEqual(heard.toSorted((a, b) => a - b));
  expect(new Set(heard).size).toBe(heard.length);
  expect(heard.length).toBeLessThan(sent);
});

test('a client of an unknown format hears itself in the echo room, a second later', async () => {
  const client = await connect(nodes[0]!, { room: '__echo__', audio: 'opaque' });
  await client.next('joined');
  const said = encrypted(12, [100, 64 * 1024, 200]);
  const fromMs = performance.now();
  send(client, said);
  await hears(client, said);
  expect(performance.now() - fromMs).toBeGreaterThan(950);
});
