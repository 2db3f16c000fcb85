/** The browser that the tests join a room with. */
import { provide } from './apt.mjs';
import { find } from './find.mjs';

/** Sees to it that there is a Chromium. */
export async function provideBrowser() {
  await provide('browser', { chromium: () => find('chromium') !== undefined });
}
