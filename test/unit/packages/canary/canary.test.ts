import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  CHIRP_FRAMES,
  FRAME_MS,
  FRAME_SAMPLES,
  makeChirp,
} from '../../../../packages/canary/src/chirp.ts';
import { compare, type Comparison } from '../../../../packages/canary/src/compare.ts';
import { type HeardFrame, joinFrames } from '../../../../packages/canary/src/ear.ts';
import { relayOf } from '../../../../packages/canary/src/media-transport.ts';
import { CanaryMetrics } from '../../../../packages/canary/src/metrics.ts';
import { readOptions } from '../../../../packages/canary/src/options.ts';
import { reportCost, reportRound } from '../../../../packages/canary/src/report.ts';
import type { Round } from '../../../../packages/canary/src/round.ts';
import { flawOf } from '../../../../packages/canary/src/verdict.ts';
import { decodeOpus, opusVoice, pcmVoice, readPcm } from '../../../../packages/canary/src/voice.ts';

const sentAtMs = Array.from({ length: CHIRP_FRAMES }, (_, frame) => 1000 + frame * FRAME_MS);
const played = { samples: makeChirp(), sentAtMs };

/** The chirp as it is heard `lateMs` after it was sent, in frames that do not begin with those that were sent. */
function heardLate(lateMs: number, change: (frame: HeardFrame) => HeardFrame[] = (one) => [one]) {
  const before = 7 * FRAME_SAMPLES + 240;
  const sound = new Float32Array(before + played.samples.length + 20 * FRAME_SAMPLES);
  sound.set(played.samples, before);
  // The chirp's first sample is `before` samples after the first that is heard.
  const startMs = 1000 + lateMs - before / 48;
  const frames = Array.from({ length: Math.floor(sound.length / FRAME_SAMPLES) }, (_, i) => ({
    at: i * FRAME_SAMPLES,
    samples: sound.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES),
    atMs: startMs + i * FRAME_MS,
  }));
  return joinFrames(frames.flatMap(change));
}

describe('compare()', () => {
  test.each([3, 20, 87.5, 400])('finds sound that comes %s ms late', (lateMs) => {
    const { isSilent, lostShare, mouthToEarMs, levelDb } = compare(played, heardLate(lateMs));
    expect({ isSilent, lostShare }).toEqual({ isSilent: false, lostShare: 0 });
    expect(mouthToEarMs).toBeCloseTo(lateMs, 0);
    expect(levelDb).toBeCloseTo(0, 1);
  });

  test('tells the level', () => {
    const half = heardLate(20, (frame) => [
      { ...frame, samples: frame.samples.map((sample) => sample / 2) },
    ]);
    expect(compare(played, half).levelDb).toBeCloseTo(-6, 0);
  });

  test('counts frames that are missing', () => {
    let i = 0;
    const holes = heardLate(20, (frame) => ((i += 1) % 10 === 0 ? [] : [frame]));
    const { isSilent, lostShare } = compare(played, holes);
    expect(isSilent).toBe(false);
    // A frame that is heard lies across two that were sent.
    expect(lostShare).toBeGreaterThan(0.05);
    expect(lostShare).toBeLessThan(0.25);
  });

  test('tells that nearly half of it is lost', () => {
    const holes = heardLate(20, (frame) => (frame.at % 19_200 < 8640 ? [] : [frame]));
    const heard = compare(played, holes);
    expect(heard.isSilent).toBe(false);
    expect(heard.lostShare).toBeGreaterThan(0.3);
    expect(flawOf(heard)).toBe('TOO MUCH LOST');
  });

  test.each([
    [-20, 'TOO QUIET'],
    [-2, undefined],
    [2, undefined],
    [6, 'TOO LOUD'],
  ])('tells what is wrong with %s dB: %s', (levelDb, flaw) => {
    const gain = 10 ** (levelDb / 20);
    const changed = heardLate(20, (frame) => [
      { ...frame, samples: frame.samples.map((sample) => sample * gain) },
    ]);
    const heard = compare(played, changed);
    expect(heard.levelDb).toBeCloseTo(levelDb, 0);
    expect(flawOf(heard)).toBe(flaw);
  });

  test.each<[string, (frame: HeardFrame) => HeardFrame[]]>([
    ['nothing', () => []],
    ['silence', (frame) => [{ ...frame, samples: new Float32Array(FRAME_SAMPLES) }]],
    [
      'a tone that is not the chirp',
      (frame) => [{ ...frame, samples: frame.samples.map((_, i) => 0.3 * Math.sin(i / 9)) }],
    ],
    ['a whisper', (frame) => [{ ...frame, samples: frame.samples.map((sample) => sample / 100) }]],
  ])('takes %s for silence', (_name, change) => {
    const { isSilent, lostShare } = compare(played, heardLate(20, change));
    expect({ isSilent, lostShare }).toEqual({ isSilent: true, lostShare: 1 });
  });
});

test('the sound sent as PCM and as Opus is the chirp', async () => {
  const pcm = pcmVoice();
  expect(pcm.chirp).toHaveLength(CHIRP_FRAMES);
  const opus = await opusVoice();
  const decoded = await decodeOpus([opus.silence, ...opus.chirp, opus.silence, opus.silence]);
  for (const frames of [
    [...pcm.chirp, pcm.silence].map((each) => readPcm(Buffer.from(each))),
    decoded,
  ]) {
    const heard = joinFrames(
      frames.map((samples, i) => ({ at: i * FRAME_SAMPLES, samples, atMs: i * FRAME_MS })),
    );
    const { isSilent, lostShare, levelDb } = compare(played, heard);
    expect(isSilent).toBe(false);
    expect(lostShare).toBeLessThan(0.1);
    expect(Math.abs(levelDb ?? NaN)).toBeLessThan(1);
  }
});

describe('readOptions()', () => {
  const words = ['--url', 'https://gateway.example.net', '--key', 'pl_x'];

  test('reads what is given', () => {
    expect(readOptions([...words, '--listen', ':9477', '--every', '30'], {})).toEqual({
      url: 'https://gateway.example.net',
      key: 'pl_x',
      everySeconds: 30,
      isOnce: false,
      listen: { host: undefined, port: 9477 },
    });
    expect(
      readOptions(['--url', 'http://[::1]:3000/', '--once'], { CANARY_KEY: 'k' }),
    ).toMatchObject({ url: 'http://[::1]:3000', key: 'k', isOnce: true, listen: undefined });
    expect(readOptions([...words, '--every', '60'], {}).everySeconds).toBe(60);
    expect(readOptions([...words, '--listen', '[::1]:1'], {}).listen).toEqual({
      host: '::1',
      port: 1,
    });
  });

  test.each([
    [[], '--key'],
    [['--key', 'k'], '--url'],
    [['--key', 'k', '--url', 'ftp://x'], '--url'],
    [
      ['--key', 'k', '--url', 'https://example.net/voice/'],
      '--url is the address of the gateway, without a path',
    ],
    [[...words, '--every', '1'], '--every'],
    [[...words, '--every', 'often'], '--every'],
    [[...words, '--every', '61'], '--every must be a number of seconds from 8 to 60'],
    [[...words, '--listen', 'here'], '--listen'],
    [[...words, '--listen', ':70000'], '--listen'],
    [[...words, '--louder'], '--louder'],
  ])('refuses %j', (args, named) => {
    expect(() => readOptions(args, {})).toThrow(named);
  });
});

test.each([
  ['turn:relay.example.net', 3478, 'udp'],
  ['turn:relay.example.net:99?transport=tcp', 99, 'tcp'],
  ['turns:relay.example.net', 5349, 'tls'],
])('relayOf() reads %s', (url, port, transport) => {
  const servers = [{ urls: ['stun:other', url], username: 'u', credential: 'c' }];
  expect(relayOf(servers)).toMatchObject({
    turnServer: ['relay.example.net', port],
    turnTransport: transport,
  });
});

describe('the report of a round', () => {
  const good: Comparison = {
    isSilent: false,
    lostShare: 0.021,
    mouthToEarMs: 31.25,
    levelDb: -0.4,
  };
  const silent: Comparison = {
    isSilent: true,
    lostShare: 1,
    mouthToEarMs: undefined,
    levelDb: undefined,
  };
  const round: Round = {
    at: new Date('2026-11-23T02:00:00Z'),
    directions: [
      { from: 'websocket', to: 'websocket', ...good },
      { from: 'webrtc', to: 'websocket', ...silent },
      { from: 'webrtc', to: 'webrtc', ...good, lostShare: 0.45, levelDb: -20 },
    ],
    joins: [{ kind: 'webrtc', joinMs: 312, path: 'udp 203.0.113.7:40000' }],
    faults: ['webrtc listener: no WebRTC path within 10 s'],
    peerSeconds: 18,
  };

  test('a table, and the minutes', () => {
    const text = reportRound(round);
    expect(text).toContain('WebRTC                 joined in 312 ms over udp 203.0.113.7:40000');
    expect(text).toMatch(/WebSocket to WebSocket +31\.3 ms +2 % lost +-0\.4 dB\n/);
    expect(text).toMatch(/WebRTC to WebSocket +SILENT/);
    expect(text).toMatch(/WebRTC to WebRTC .* 45 % lost +-20\.0 dB +TOO MUCH LOST, TOO QUIET\n/);
    expect(text).toContain('! webrtc listener');
    expect(reportCost(round, 10)).toContain('108 minutes an hour');
  });

  test('metrics count from 0', async () => {
    const text = await new CanaryMetrics().registry.metrics();
    const counters = text.split('\n').filter((line) => /^\w+_total/.test(line));
    expect(counters.toSorted()).toEqual([
      'partyline_canary_rounds_total{result="failed"} 0',
      'partyline_canary_rounds_total{result="heard"} 0',
      'partyline_canary_silent_total{from="webrtc",to="webrtc"} 0',
      'partyline_canary_silent_total{from="webrtc",to="websocket"} 0',
      'partyline_canary_silent_total{from="websocket",to="webrtc"} 0',
      'partyline_canary_silent_total{from="websocket",to="websocket"} 0',
    ]);
  });

  test('a direction that is silent has no level', async () => {
    const metrics = new CanaryMetrics();
    const way = { from: 'webrtc', to: 'webrtc' } as const;
    const levels = async (heard: Comparison) => {
      metrics.take({ ...round, directions: [{ ...way, ...heard }] });
      return (await metrics.registry.metrics()).match(/^partyline_canary_level_db\{.*$/gm);
    };
    const level = 'partyline_canary_level_db{from="webrtc",to="webrtc"} -0.4';
    expect(await levels(good)).toEqual([level]);
    expect(await levels(silent)).toBeNull();
    expect(await levels(good)).toEqual([level]);
    expect(await levels({ ...good, isSilent: true, lostShare: 0.9 })).toBeNull();
  });

  test('metrics', async () => {
    const metrics = new CanaryMetrics();
    metrics.take(round);
    const text = await metrics.registry.metrics();
    for (const line of [
      'partyline_canary_rounds_total{result="failed"} 1',
      'partyline_canary_silent_total{from="websocket",to="websocket"} 0',
      'partyline_canary_silent_total{from="webrtc",to="websocket"} 1',
      'partyline_canary_mouth_to_ear_seconds_bucket{le="0.04",from="websocket",to="websocket"} 1',
      'partyline_canary_join_seconds_count{kind="webrtc"} 1',
      'partyline_canary_last_round_timestamp_seconds 1795399200',
    ]) {
      expect(text).toContain(line);
    }
  });
});

test('the WebRTC stack is a development package of the project, so that the image of the gateway does not have it', () => {
  const file = new URL('../../../../package-lock.json', import.meta.url);
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as {
    packages: Record<string, { dev?: boolean }>;
  };
  expect(packages['node_modules/werift']).toMatchObject({ dev: true });
});
