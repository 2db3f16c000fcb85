import { expect, onTestFinished, test, vi } from 'vitest';
import { FrameClock } from '../../../src/audio/clock.ts';
import { RoomRegistry } from '../../../src/rooms/registry.ts';
import type { RoomParts } from '../../../src/rooms/room-parts.ts';

test('the clock of rooms that are closed does not run for audio that still waits', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const clock = new FrameClock(() => {});
  clock.add(() => {});
  new RoomRegistry({ clock } as RoomParts).close();
  expect(vi.getTimerCount()).toBe(0);
});
