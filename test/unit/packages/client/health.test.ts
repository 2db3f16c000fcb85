import { expect, test } from 'vitest';
import { FlowWatch } from '../../../../packages/client/src/flow-watch.ts';
import { HealthWatch } from '../../../../packages/client/src/health.ts';
import { Pulse } from '../../../../packages/client/src/pulse.ts';
import type { RoomAudio } from '../../../../packages/client/src/room-audio.ts';
import type { Wire } from '../../../../packages/client/src/wire.ts';

/** Tests of how the client finds out that audio does not flow, in virtual time. */

const LOOK_MS = 250;

/** An audio and a connection as the watch sees them; a test changes them as it likes. */
function openWatch(transport: RoomAudio['transport'] = 'webrtc') {
  const sound = {
    transport,
    hasPath: true,
    isAskingForPath: false,
    isAskingForAudio: false,
    isPathBroken: false,
    isStopped: false,
    isPlaybackBlocked: false,
    received: 0,
    isCounted: true,
    unsent: undefined as RoomAudio['unsent'],
  };
  const packetsReceived = () =>
    sound.isCounted
      ? Promise.resolve(sound.received)
      : Promise.reject(new Error('getStats failed'));
  const audio = Object.assign(sound, { packetsReceived }) as unknown as RoomAudio;
  const line = { heardMs: 0, asked: 0, failed: [] as string[] };
  const wire = {
    get heardMs() {
      return line.heardMs;
    },
    request: () => {
      line.asked += 1;
      return new Promise(() => undefined);
    },
    fail: (message: string) => line.failed.push(message),
  } as unknown as Wire;
  const watch = new HealthWatch(wire);
  const around = {
    areOthersSpeaking: false,
    isUnheard: false,
    refusal: undefined,
    isSystemMuted: false,
    isOpening: false,
  };
  /** Looks at it until a moment. */
  let nowMs = 0;
  const until = async (endMs: number, each: () => void = () => undefined) => {
    let health = await watch.check(audio, around, nowMs);
    while (nowMs < endMs) {
      nowMs += LOOK_MS;
      each();
      health = await watch.check(audio, around, nowMs);
    }
    return health;
  };
  const hear = () => {
    line.heardMs = nowMs;
  };
  return { watch, audio, sound, line, around, until, hear };
}

test('with losses WebRTC is kept while packets come, whatever ICE says', async () => {
  const { watch, sound, around, until, hear } = openWatch();
  around.areOthersSpeaking = true;
  sound.isPathBroken = true;
  const health = await until(20_000, () => {
    sound.received += 1;
    hear();
  });
  expect(health).toMatchObject({ isBroken: false, isOneWay: false });
  expect(watch.trouble).toBeUndefined();
});

test('a look that waits for statistics while the connection resumes leaves no trouble behind', async () => {
  const { watch, audio, sound, around, until, hear } = openWatch();
  sound.isPathBroken = true;
  await until(1000, hear);
  expect(watch.isInterrupted).toBe(true);
  const pending = watch.check(audio, around, 1250);
  watch.reset();
  const health = { transport: 'webrtc', pathlessMs: 0, isBroken: false, isOneWay: false };
  expect(await pending).toEqual(health);
  expect(watch).toMatchObject({ trouble: undefined, isInterrupted: false });
});

test('a path for which the gateway has not answered yet says nothing about the network', async () => {
  const { watch, sound, until, hear } = openWatch();
  Object.assign(sound, { hasPath: false, isAskingForPath: true });
  expect(await until(3000, hear)).toMatchObject({ pathlessMs: 0 });
  expect(watch.trouble).toBeUndefined();
  expect(await until(10_000, hear)).toMatchObject({ pathlessMs: 0 });
  expect(watch.trouble).toContain('the gateway has not answered');
  sound.isAskingForPath = false;
  expect(await until(12_000, hear)).toMatchObject({ pathlessMs: 2000 });
  expect(watch.trouble).toContain('the gateway has not answered');
  await until(13_250, hear);
  expect(watch.trouble).toContain('the gateway has not answered');
  expect(await until(13_500, hear)).toMatchObject({ pathlessMs: 3500 });
  expect(watch.trouble).toContain('this network may block');
});

test('a way that breaks in silence is told, and in words', async () => {
  const { watch, sound, until, hear } = openWatch();
  await until(5000, hear);
  expect(watch.trouble).toBeUndefined();
  sound.isPathBroken = true;
  expect(await until(5250, hear)).toMatchObject({ isBroken: false });
  expect(await until(6000, hear)).toMatchObject({ isBroken: true });
  expect(watch.trouble).toContain('the path to the gateway is broken');
  expect(watch.isInterrupted).toBe(true);
});

test.each(['webrtc', 'websocket'] as const)(
  'others that speak and do not arrive over the %s are noticed within 2 s',
  async (transport) => {
    const { watch, sound, around, until, hear } = openWatch(transport);
    around.areOthersSpeaking = true;
    const flows = () => {
      sound.received += 12;
      hear();
    };
    expect(await until(5000, flows)).toMatchObject({ isOneWay: false });
    expect(await until(7000, hear)).toMatchObject({ isOneWay: true });
    expect(watch.trouble).toContain('You do not hear the others');
    expect(watch.isInterrupted).toBe(false);
    expect(await until(7250, flows)).toMatchObject({ isOneWay: false });
    expect(watch.trouble).toBeUndefined();
  },
);

test('statistics that cannot be had are not counted, and change nothing else', async () => {
  const { sound, around, until, hear } = openWatch();
  around.areOthersSpeaking = true;
  sound.isCounted = false;
  expect(await until(1000, hear)).toMatchObject({ isOneWay: false });
  sound.isPathBroken = true;
  expect(await until(3000, hear)).toMatchObject({ isBroken: true });
  sound.isPathBroken = false;
  sound.isCounted = true;
  const flows = () => {
    sound.received += 12;
    hear();
  };
  expect(await until(4000, flows)).toMatchObject({ isBroken: false, isOneWay: false });
});

test('audio that the gateway has not agreed to send is missed in words, and is no reason to leave WebRTC', async () => {
  const { watch, sound, around, until, hear } = openWatch();
  around.areOthersSpeaking = true;
  sound.isAskingForAudio = true;
  expect(await until(5000, hear)).toMatchObject({ isOneWay: false });
  expect(watch.trouble).toContain('You do not hear the others');
  sound.isAskingForAudio = false;
  expect(await until(6250, hear)).toMatchObject({ isOneWay: false });
  expect(await until(6500, hear)).toMatchObject({ isOneWay: true });
});

test('that nobody hears us is told in words', async () => {
  const { watch, around, until, hear } = openWatch();
  around.isUnheard = true;
  expect(await until(250, hear)).toMatchObject({ isOneWay: true });
  expect(watch.trouble).toContain('Nobody hears you');
});

test.each([
  [false, 'the browser cannot encode'],
  [true, 'the network is too slow'],
])('audio of which nothing is sent for 2 s is told (encoded: %s)', async (isEncoded, words) => {
  const { watch, sound, until, hear } = openWatch('websocket');
  sound.unsent = { sinceMs: 1000, isEncoded };
  await until(2750, hear);
  expect(watch.trouble).toBeUndefined();
  await until(3000, hear);
  expect(watch.trouble).toMatch(/^Nobody hears you/);
  expect(watch.trouble).toContain(words);
  expect(watch.isInterrupted).toBe(false);
  sound.unsent = { sinceMs: 3000, isEncoded };
  await until(3250, hear);
  expect(watch.trouble).toBeUndefined();
});

test('others that speak over a WebSocket that carries nothing are not called missing', async () => {
  const { watch, sound, line, around, until, hear } = openWatch('websocket');
  around.areOthersSpeaking = true;
  await until(1000, () => {
    sound.received += 12;
    hear();
  });
  await until(3000);
  expect(line.asked).toBe(1);
  expect(watch.trouble).toBeUndefined();
  await until(5750);
  expect(watch.trouble).toContain('nothing arrives from the gateway');
});

test('a WebSocket that carries nothing is told within 5 s, and given up after 8', async () => {
  const { watch, line, until, hear } = openWatch('websocket');
  await until(10_000, hear);
  expect(line.asked).toBe(0);
  await until(14_000);
  expect(line).toMatchObject({ asked: 1, failed: [] });
  await until(14_750);
  expect(watch.trouble).toContain('nothing arrives from the gateway');
  expect(watch.isInterrupted).toBe(true);
  await until(18_000);
  expect(line.failed.length).toBeGreaterThan(0);
});

test('sound over the WebSocket that the browser has stopped for 500 ms is told until it runs', async () => {
  const { watch, sound, until, hear } = openWatch('websocket');
  await until(1000, hear);
  sound.isStopped = true;
  await until(1250, hear);
  expect(watch.trouble).toBeUndefined();
  expect(await until(1500, hear)).toMatchObject({ isBroken: false });
  expect(watch.trouble).toContain('the browser has stopped it');
  expect(watch.isInterrupted).toBe(true);
  sound.isStopped = false;
  await until(2000, hear);
  expect(watch.trouble).toBeUndefined();
});

test('a recording over the WebSocket that the browser has stopped is told as one that a click resumes', async () => {
  const { watch, sound, until, hear } = openWatch('websocket');
  sound.isPlaybackBlocked = true;
  await until(500, hear);
  expect(watch.trouble).toContain('Nobody hears you: the browser has stopped recording');
  expect(watch.isPlaybackBlocked).toBe(true);
  expect(watch.isInterrupted).toBe(false);
});

test('beside WebRTC a WebSocket that carries nothing is given up after 11 s, and no sound is missing', async () => {
  const { watch, line, until } = openWatch();
  await until(10_500);
  expect(line.failed).toEqual([]);
  expect(watch.trouble).toBeUndefined();
  await until(11_500);
  expect(line.failed.length).toBeGreaterThan(0);
});

test('a client that wakes up asks first, and goes on if it is answered', async () => {
  let asked = 0;
  const pulse = new Pulse(() => {
    asked += 1;
    return Promise.resolve();
  });
  expect(pulse.look('sound', 0, 3_600_000)).toBe('stalled');
  expect(asked).toBe(1);
  await Promise.resolve();
  expect(pulse.look('sound', 3_600_100, 3_600_250)).toBe('steady');
});

test('the first look at a flow tells nothing', () => {
  const watch = new FlowWatch();
  watch.note(true, 100, 0);
  expect(watch.isMoving(0)).toBe(false);
  expect(watch.nothingArrivesSinceMs(0)).toBeUndefined();
});
