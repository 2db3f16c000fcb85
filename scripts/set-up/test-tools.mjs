/** What only the tests need: a browser to join a room with, and hosts of their own to cut off from each other. */
import { provide } from './apt.mjs';
import { find } from './find.mjs';

/** Sees to it that there are Chromium and `ip`. */
export async function provideTestTools() {
  await provide('test tools', {
    chromium: () => find('chromium') !== undefined,
    iproute2: () => find('ip') !== undefined,
  });
}
