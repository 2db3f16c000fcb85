import { expect, test } from 'vitest';
import type { AttackReport, Told } from '../../../bench/hostile/attack.ts';
import {
  type Floor,
  isWithin,
  mayStay,
  type Measured,
  nameOf,
  rowOf,
} from '../../../bench/hostile/attack-row.ts';
import { ATTACKS } from '../../../bench/hostile/attacks.ts';
import { ContainerIngest } from '../../../src/audio/ingest/container-ingest.ts';
import { BARE_JOINED } from '../../../bench/hostile/bare-joined.ts';
import { MESSAGE_ATTACKS } from '../../../bench/hostile/message-attacks.ts';
import { WEBRTC_MESSAGE_ATTACKS } from '../../../bench/hostile/webrtc-message-attacks.ts';

const SENT: AttackReport = {
  connections: 1,
  accepted: 1,
  messages: 500,
  bytes: 2e6,
  told: { '4429': 1 },
};
const NOTHING_SENT: AttackReport = { connections: 1, accepted: 1, messages: 0, bytes: 0, told: {} };
const FLOOR: Floor = { gapMs: 25, loopMs: 1, attackers: SENT };
const QUIET: Measured = {
  gapMs: 25,
  quietMs: 25,
  floor: FLOOR,
  loopMs: 1,
  heapMb: 0,
  heapAgainMb: 0,
  redisMb: 0.1,
  keptKeys: [],
  attackers: SENT,
};
const attackCalled = (name: string) => ATTACKS.find((attack) => attack.name.includes(name))!;
const messagesCalled = (name: string) =>
  [...MESSAGE_ATTACKS, ...WEBRTC_MESSAGE_ATTACKS].find((attack) => attack.name.includes(name))!;
const FLOOD = attackCalled('malformed JSON');

test('a row without an attack does not meet its goals', () => {
  expect(isWithin(FLOOD, QUIET, 1)).toBe(true);
  expect(isWithin(FLOOD, { ...QUIET, attackers: NOTHING_SENT }, 1)).toBe(false);
  const refused = { connections: 725, accepted: 0, messages: 320, bytes: 0, told: { '1006': 1 } };
  expect(isWithin(FLOOD, { ...QUIET, attackers: refused }, 1)).toBe(false);
  const floor = { ...FLOOR, attackers: NOTHING_SENT };
  expect(isWithin(FLOOD, { ...QUIET, floor }, 1)).toBe(false);
  // One message of each is no flood.
  expect(isWithin(FLOOD, QUIET, 500)).toBe(false);
});

test('an attack that only connects needs connections, not messages', () => {
  const connecting = { ...NOTHING_SENT, connections: 100 };
  const row = { ...QUIET, floor: { ...FLOOR, attackers: connecting } };
  const going = attackCalled('connects and goes');
  expect(isWithin(going, { ...row, attackers: connecting }, 1)).toBe(true);
  expect(isWithin(going, { ...row, attackers: NOTHING_SENT }, 1)).toBe(false);
});

test('an attack whose connections are refused needs connections, or messages where none is', () => {
  const refused = { ...NOTHING_SENT, accepted: 0, connections: 100, told: { '400': 100 } };
  const pipeline = attackCalled('HTTP requests in a pipeline');
  expect(isWithin(pipeline, { ...QUIET, attackers: refused }, 1)).toBe(true);
  expect(isWithin(pipeline, { ...QUIET, attackers: NOTHING_SENT }, 1)).toBe(false);
});

test('a client that replaces itself must be told so', () => {
  const connecting = { ...NOTHING_SENT, connections: 100 };
  const row = { ...QUIET, floor: { ...FLOOR, attackers: connecting } };
  const replacing = attackCalled('replaces itself');
  expect(isWithin(replacing, { ...row, attackers: connecting }, 1)).toBe(false);
  const attackers = { ...connecting, told: { '4409': 90 } };
  expect(isWithin(replacing, { ...row, attackers }, 1)).toBe(true);
});

test('a row without a floor is judged beyond quiet alone', () => {
  const row: Measured = { ...QUIET, floor: undefined };
  const rtp = attackCalled('RTP without pause');
  expect(isWithin(rtp, row, 50)).toBe(false);
  const attackers = { ...SENT, accepted: 50 };
  expect(isWithin(rtp, { ...row, attackers }, 50)).toBe(true);
  expect(isWithin(rtp, { ...row, attackers, gapMs: 226 }, 50)).toBe(false);
  expect(rowOf(rtp.name, row, true)).toContain('| 25 ms | 25 ms | – | 1 ms | – |');
});

test('a floor counts up to its goal', () => {
  const blocked: Measured = { ...QUIET, floor: { ...FLOOR, gapMs: 2527, loopMs: 3985 } };
  expect(isWithin(FLOOD, { ...blocked, gapMs: 120, loopMs: 40 }, 1)).toBe(true);
  expect(isWithin(FLOOD, { ...blocked, gapMs: 121 }, 1)).toBe(false);
  expect(isWithin(FLOOD, { ...blocked, loopMs: 41 }, 1)).toBe(false);
});

test('memory after a second attack, and keys that never expire, are judged', () => {
  expect(isWithin(FLOOD, { ...QUIET, heapAgainMb: 5 }, 1)).toBe(false);
  expect(isWithin(FLOOD, { ...QUIET, keptKeys: ['partyline:resume:2:attacker'] }, 1)).toBe(false);
});

test('keys of rooms and of connections may not stay', () => {
  expect(mayStay('partyline:usage:open:2:2026-01-26T18:17')).toBe(true);
  expect(mayStay('partyline:webhooks:outbox:2\nattacked')).toBe(true);
  expect(mayStay('partyline:webhooks:holders')).toBe(true);
  expect(mayStay('partyline:webhooks:peers:2\nattacked')).toBe(false);
  expect(mayStay('partyline:ccu:2')).toBe(false);
});

test('listeners of an attack must hear it, and be sent no padding', () => {
  const padded = attackCalled('listeners');
  const hears = (heardBytes: number) => ({ ...QUIET, attackers: { ...SENT, heardBytes } });
  expect(isWithin(padded, hears(500 * 5 * 260), 1)).toBe(true);
  expect(isWithin(padded, hears(0), 1)).toBe(false);
  expect(isWithin(padded, hears(500 * 5 * 65_536), 1)).toBe(false);
  expect(rowOf('flood', hears(1e6), true)).toContain('2.0 MB; 1000 kB to listeners |');
});

test('all connections of a free account are held to the goals of one attacker', () => {
  const unconnected = attackCalled('never connect');
  const row = { ...QUIET, floor: undefined, attackers: { ...SENT, accepted: 5 } };
  expect(isWithin(unconnected, row, 5)).toBe(true);
  expect(isWithin(unconnected, { ...row, gapMs: 125 }, 5)).toBe(false);
});

test('a row shows what was sent, and says so where the attackers were told nothing', () => {
  const attackers = { ...SENT, told: {} };
  expect(rowOf('flood', { ...QUIET, attackers }, true)).toContain(
    '| 1 accepted, 1 connection, 500 messages, 2.0 MB | nothing | met |',
  );
});

test('a row shows the size of answers apart from that of requests, and no connections where none is counted', () => {
  const attackers = { ...SENT, connections: 0, bytes: 0, answerBytes: 689e6 };
  expect(rowOf('requests', { ...QUIET, attackers }, true)).toContain(
    '| 1 accepted, 500 messages, 0.0 MB; 689.0 MB of answers |',
  );
});

test('requests that are refused need no accepted client', () => {
  const attackers = { ...SENT, accepted: 0, told: { '429': 20_000, '401': 120 } };
  for (const name of ['another wrong key', 'usage reports']) {
    expect(isWithin(attackCalled(name), { ...QUIET, attackers }, 1)).toBe(true);
  }
});

test('a row says how many clients it has, and of which plan, where its heading does not', () => {
  const named = (name: string, clients: number, wanted: number) =>
    nameOf(attackCalled(name), clients, wanted);
  expect(named('malformed', 1, 1)).toBe('malformed JSON');
  expect(named('RTP', 50, 500)).toBe('RTP without pause over WebRTC (50 clients in place of 500)');
  expect(named('listeners', 1, 1)).toMatch(/ to 5 listeners \(a starter account\)$/);
  expect(named('never connect', 5, 1)).toMatch(/ \(5 clients in place of one\)$/);
});

const NOT_TOLD: Told = {
  isAccepted: true,
  joined: undefined,
  producerId: undefined,
  consumerId: undefined,
  refused: 0,
};

test.each([
  // 240 KB from the head of the element on, and what comes behind it, which is none.
  ['in messages of one byte', 240_000],
  // 256 KiB without a packet.
  ['clusters that never end', 1 << 18],
])('the gateway reads `webm_opus` of the attack %s until it must refuse it', (name, bytes) => {
  const faults: unknown[] = [];
  const packets = { push: () => {}, skip: () => {}, close: () => {} };
  const ingest = new ContainerIngest('webm_opus', packets, (fault) => faults.push(fault));
  let read = 0;
  for (const message of messagesCalled(name).messages({ ...NOT_TOLD })) {
    if (faults.length > 0) break;
    const data = Buffer.from(message ?? '');
    ingest.push(data, 0);
    read += data.length;
  }
  ingest.close();
  expect(faults).toEqual([expect.objectContaining({ code: 'unsupported_audio' })]);
  expect(read).toBeGreaterThan(bytes);
});

test('attacks by answers wait for them, and ask again after an error', () => {
  const told = { ...NOT_TOLD };
  const own = messagesCalled('`resume_producer` of its own').messages(told);
  const next = () => {
    const { value } = own.next() as { value?: string };
    return value === undefined ? undefined : (JSON.parse(value) as { type: string });
  };
  expect(next()?.type).toBe('join');
  expect(next()).toBeUndefined();
  told.refused += 1;
  expect(next()?.type).toBe('join');
  told.joined = BARE_JOINED;
  expect(next()?.type).toBe('produce');
  expect(next()).toBeUndefined();
  told.producerId = 'p';
  expect(next()).toEqual({ type: 'pause_producer', producer_id: 'p' });
  expect(next()).toEqual({ type: 'resume_producer', producer_id: 'p' });
});

test('a consumer is resumed once it is offered, without end', () => {
  const told = { ...NOT_TOLD };
  const own = messagesCalled('`resume_consumer` of its own').messages(told);
  const next = () => own.next().value as string | undefined;
  expect(JSON.parse(next()!)).toMatchObject({ type: 'join' });
  told.joined = BARE_JOINED;
  expect(next()).toBeUndefined();
  told.consumerId = 'c';
  for (let n = 0; n < 3; n += 1) {
    expect(JSON.parse(next()!)).toEqual({ type: 'resume_consumer', consumer_id: 'c' });
  }
});

test('browsers that never connect produce, stay for 2 s, leave and come again', () => {
  const told = { ...NOT_TOLD };
  const unconnected = messagesCalled('never connect');
  const messages = unconnected.messages(told);
  for (let round = 0; round < 2; round += 1) {
    const types: string[] = [];
    let turns = 0;
    while (types.at(-1) !== 'leave') {
      const { value } = messages.next() as { value: string | undefined };
      if (value === undefined) turns += 1;
      else types.push((JSON.parse(value) as { type: string }).type);
      if (types.at(-1) === 'join') told.joined = { ...BARE_JOINED };
      if (types.at(-1) === 'produce') told.producerId = `producer ${round}`;
    }
    expect(types).toEqual(['join', 'produce', 'leave']);
    expect(turns / unconnected.perSecond!).toBe(2);
  }
});

test('each join has its own message about a transport', () => {
  const told = { ...NOT_TOLD };
  const messages = messagesCalled('and `produce` in turn').messages(told);
  for (const type of ['join', 'produce', 'join', 'produce']) {
    const { value } = messages.next() as { value: string };
    expect(JSON.parse(value)).toMatchObject({ type });
    if (type === 'join') told.joined = { ...BARE_JOINED };
  }
});

test('attacks on WebRTC send messages of their own to the bare server too', () => {
  for (const name of ['`produce`', '`restart_ice`', '`connect_transport`']) {
    const told = { ...NOT_TOLD, joined: BARE_JOINED };
    const [, message] = messagesCalled(name).messages(told);
    expect(JSON.parse(String(message))).toMatchObject({
      type: name.replaceAll('`', ''),
      transport_id: BARE_JOINED.webrtc?.send_transport.id,
    });
  }
});
