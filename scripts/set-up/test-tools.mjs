/** Tools that only the tests need: browsers to join a room with, hosts of their own to cut off from each other, a voice, and a wrong clock. */
import { provide } from './apt.mjs';
import { find } from './find.mjs';

/** Sees to it that there are Chromium, Firefox, `ip`, `espeak-ng`, `sox` and `faketime`. */
export async function provideTestTools() {
  await provide('test tools', {
    chromium: () => find('chromium') !== undefined,
    'firefox-esr': () => find('firefox-esr') !== undefined,
    iproute2: () => find('ip') !== undefined,
    'espeak-ng': () => find('espeak-ng') !== undefined,
    sox: () => find('sox') !== undefined,
    faketime: () => find('faketime') !== undefined,
  });
}
