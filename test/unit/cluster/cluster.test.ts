import { describe, expect, test } from 'vitest';
import { LinkWatch } from '../../../src/cluster/link-watch.ts';
import { Sealer } from '../../../src/cluster/sealer.ts';
import { RemotePeers } from '../../../src/rooms/remote-peers.ts';
import { Roster } from '../../../src/rooms/roster.ts';

describe('Sealer', () => {
  const sealer = new Sealer('a key that all nodes know');

  test('a text that is sealed for a context opens in it', () => {
    expect(sealer.unseal(sealer.seal('päivää', 'room a'), 'room a')).toBe('päivää');
  });

  test.each([
    ['for another place', () => sealer.seal('x', 'room b')],
    ['with another key', () => new Sealer('a key that a stranger made up').seal('x', 'room a')],
    [
      'and was changed',
      () => sealer.seal('x', 'room a').replace(/.$/, (c) => (c === 'A' ? 'E' : 'A')),
    ],
    ['and was cut', () => sealer.seal('x', 'room a').slice(0, 30)],
    ['not at all', () => ''],
  ])('what was sealed %s does not open', (_how, sealed) => {
    expect(() => sealer.unseal(sealed(), 'room a')).toThrow('not sealed');
  });

  test('the seals of two equal texts differ', () => {
    expect(sealer.seal('x', 'room a')).not.toBe(sealer.seal('x', 'room a'));
  });
});

describe('Roster', () => {
  test('a peer that holds two places leaves with the last', () => {
    const roster = new Roster();
    const connection = {};
    expect(roster.enter('alice', 'websocket', connection)).toMatchObject({ peer: 'alice' });
    expect(roster.enter('alice', 'websocket', 'node b')).toBeUndefined();
    expect(roster.leave('alice', connection)).toBeUndefined();
    expect(roster.others('bob')).toHaveLength(1);
    expect(roster.leave('alice', 'node b')).toMatchObject({ peer: 'alice', kind: 'websocket' });
    expect(roster.others('bob')).toEqual([]);
  });

  test('a holder that leaves twice, or was never there, changes nothing', () => {
    const roster = new Roster();
    roster.enter('alice', 'websocket', 'node a');
    expect(roster.leave('alice', 'node b')).toBeUndefined();
    roster.leave('alice', 'node a');
    expect(roster.leave('alice', 'node a')).toBeUndefined();
  });

  test('a peer keeps its number while it is there, and no two have the same', () => {
    const roster = new Roster();
    const names = Array.from({ length: 300 }, (_, i) => `peer ${i}`);
    const numbers = names.map((name) => roster.speakerOf(name));
    expect(new Set(numbers).size).toBe(names.length);
    for (const name of names) roster.enter(name, 'websocket', 'node a');
    expect(names.map((name) => roster.speakerOf(name))).toEqual(numbers);
  });

  test('numbers begin anew behind 65535, without those that are taken; who left, or never came, has none', () => {
    const roster = new Roster();
    const stays = roster.enter('stays', 'websocket', 'node')!.speaker;
    const reserved = roster.speakerOf('on its way');
    const pass = () => {
      const { speaker } = roster.enter('passes', 'websocket', 'node')!;
      roster.leave('passes', 'node');
      return speaker;
    };
    const round = new Set(Array.from({ length: 65_534 }, pass));
    expect(round.size).toBe(65_534);
    expect([round.has(stays), round.has(reserved)]).toEqual([false, false]);
    roster.leave('on its way', 'node');
    expect(Array.from({ length: 65_535 }, pass)).toContain(reserved);
  });

  test("a change of a peer's mute is announced, by its last place", () => {
    const told: [string, boolean][] = [];
    const roster = new Roster((...change) => told.push(change));
    roster.enter('alice', 'websocket', 'node a', true);
    roster.enter('alice', 'websocket', 'node a', true);
    roster.enter('alice', 'websocket', 'node b', true);
    expect(told).toEqual([]);
    roster.setMuted('alice', 'node a', false);
    roster.setMuted('bob', 'node a', true);
    expect(told).toEqual([]);
    roster.leave('alice', 'node b');
    expect(roster.others('')).toMatchObject([{ muted: false }]);
    roster.enter('alice', 'websocket', 'node a', true);
    expect(told).toEqual([
      ['alice', false],
      ['alice', true],
    ]);
  });

  test('a change of its kind is told once, by its last place', () => {
    const told: object[] = [];
    const roster = new Roster(undefined, (changed) => told.push(changed));
    const { speaker } = roster.enter('alice', 'websocket', 'node a')!;
    roster.handOver('alice', 'node b', 'new', { kind: 'webrtc', muted: false });
    expect(told).toEqual([]);
    roster.handOver('alice', 'node a', 'new', { kind: 'webrtc', muted: false });
    roster.enter('alice', 'webrtc', 'node b');
    expect(told).toEqual([{ peer: 'alice', kind: 'webrtc', speaker }]);
    expect(roster.leave('alice', 'node a')).toBeUndefined();
  });

  test('the kind of a peer is that of its last place', () => {
    const roster = new Roster();
    roster.enter('alice', 'websocket', 'node a');
    roster.enter('alice', 'webrtc', 'node b');
    expect(roster.others('')).toMatchObject([{ kind: 'webrtc' }]);
    roster.leave('alice', 'node b');
    expect(roster.others('')).toMatchObject([{ kind: 'websocket' }]);
  });
});

describe('RemotePeers', () => {
  const none = new Map();
  const placed = (peer: string, place: string, away = false) =>
    ({ peer, kind: 'websocket', place, away }) as const;
  const namesOf = (peers: { peer: string }[]) => peers.map(({ peer }) => peer);

  test('the state of a node is compared with the one before', () => {
    const remote = new RemotePeers(new Roster());
    const first = remote.update('a', [placed('alice', '1'), placed('bob', '2')], none);
    expect(namesOf(first.joined)).toEqual(['alice', 'bob']);
    const second = remote.update('a', [placed('bob', '2')], new Map([['alice', 'left']]));
    expect(second).toMatchObject({
      joined: [],
      left: [{ peer: { peer: 'alice' }, reason: 'left' }],
    });
    const third = remote.update('a', [], none);
    expect(third).toMatchObject({ left: [{ peer: { peer: 'bob' }, reason: 'closed' }] });
  });

  test('a peer that comes back on another node is not seen to leave, nor to join', () => {
    const remote = new RemotePeers(new Roster());
    remote.update('a', [placed('alice', '1')], none);
    expect(remote.update('a', [placed('alice', '2', true)], none)).toEqual({
      joined: [],
      left: [],
    });
    expect(remote.isConnected('alice')).toBe(false);
    expect(remote.update('b', [placed('alice', '3')], none)).toEqual({ joined: [], left: [] });
    expect(remote.isConnected('alice')).toBe(true);
    expect(remote.update('a', [], none)).toEqual({ joined: [], left: [] });
  });

  test('a kept place whose peer was elsewhere since is good for nothing, however often it is read', () => {
    const remote = new RemotePeers(new Roster());
    remote.update('a', [placed('alice', '2', true)], none);
    remote.update('b', [placed('alice', '3')], none);
    const gone = remote.update('b', [], none);
    expect(namesOf(gone.left.map(({ peer }) => peer))).toEqual(['alice']);
    expect(remote.update('a', [placed('alice', '2', true)], none).joined).toEqual([]);
    const again = remote.update('a', [placed('alice', '4', true)], none);
    expect(namesOf(again.joined)).toEqual(['alice']);
  });
});

describe('LinkWatch', () => {
  const S = 1000;

  /** A link that is checked with what came in and was sent since the check before. */
  function openWatch() {
    const watch = new LinkWatch({ silentAfterMs: 15 * S, cutAfterMs: 60 * S });
    const traffic = { bytesReceived: 0, rtpBytesSent: 0 };
    const isBack = (receivedBytes: number, sentBytes: number, nowMs: number) => {
      traffic.bytesReceived += receivedBytes;
      traffic.rtpBytesSent += sentBytes;
      return watch.isBack({ ...traffic }, nowMs);
    };
    return { watch, isBack };
  }

  test('a link that is silent for a minute and then is not was cut', () => {
    const { isBack } = openWatch();
    expect(isBack(100, 9, 0)).toBe(false);
    expect(isBack(0, 9, 30 * S)).toBe(false);
    expect(isBack(0, 9, 61 * S)).toBe(false);
    expect(isBack(40, 9, 62 * S)).toBe(true);
    expect(isBack(40, 9, 72 * S)).toBe(false);
  });

  test('a link that rests was not cut', () => {
    const { watch, isBack } = openWatch();
    expect(isBack(100, 9, 0)).toBe(false);
    watch.rest();
    expect(isBack(100, 9, 900 * S)).toBe(false);
  });

  test('a link that was blocked from its first packet on is silent, and was cut when something comes', () => {
    const { watch, isBack } = openWatch();
    expect(isBack(0, 0, 0)).toBe(false);
    expect(isBack(0, 9, 10 * S)).toBe(false);
    expect(isBack(0, 9, 20 * S)).toBe(false);
    expect(watch.isSilent).toBe(false);
    expect(isBack(0, 9, 30 * S)).toBe(false);
    expect(watch.isSilent).toBe(true);
    expect(isBack(0, 9, 80 * S)).toBe(false);
    expect(isBack(100, 9, 90 * S)).toBe(true);
    expect(watch.isSilent).toBe(false);
  });

  test('only time in which something was sent counts', () => {
    const { isBack } = openWatch();
    expect(isBack(100, 9, 0)).toBe(false);
    for (let s = 10; s <= 300; s += 10) expect(isBack(0, 0, s * S)).toBe(false);
    for (let s = 310; s <= 350; s += 10) expect(isBack(0, 9, s * S)).toBe(false);
    expect(isBack(0, 0, 600 * S)).toBe(false);
    expect(isBack(40, 0, 610 * S)).toBe(false);
    for (let s = 620; s <= 670; s += 10) expect(isBack(0, 9, s * S)).toBe(false);
    expect(isBack(40, 0, 680 * S)).toBe(true);
  });
});
