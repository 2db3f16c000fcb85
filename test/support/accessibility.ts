import axe from 'axe-core';
import type { Locator, Page } from 'playwright-core';

declare global {
  interface Window {
    axe: typeof axe;
  }
}

const SIZES = [
  { width: 1000, height: 700 },
  { width: 360, height: 700 },
];
const COLOR_SCHEMES = ['light', 'dark'] as const;

/**
 * Checks what a page shows now with axe-core, in both colour schemes, on a desk and on a phone.
 * @returns every violation, with the elements that have it
 */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // Not loaded by the page, whose content security policy allows no script but its own.
  await page.evaluate(`window.axe || (() => { ${axe.source} })()`);
  const faults: string[] = [];
  const before = page.viewportSize() ?? SIZES[0]!;
  for (const colorScheme of COLOR_SCHEMES) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const size of SIZES) {
      await page.setViewportSize(size);
      const { violations } = await page.evaluate(() => window.axe.run());
      for (const { id, help, nodes } of violations) {
        const where = nodes.map(({ target }) => target.join(' ')).join(', ');
        faults.push(`${id} (${colorScheme}, ${size.width} px): ${help}: ${where}`);
      }
      const isTooWide = await page.evaluate(
        () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
      );
      if (isTooWide) faults.push(`wider than the window (${size.width} px)`);
    }
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize(before);
  return faults;
}

/** Returns whether a part that consists of its background alone is there when the browser takes all colours away. */
export async function isDrawnInForcedColors(part: Locator): Promise<boolean> {
  const page = part.page();
  await page.emulateMedia({ forcedColors: 'active' });
  const isDrawn = await part.evaluate(
    (element) =>
      getComputedStyle(element).backgroundColor === getComputedStyle(document.body).color,
  );
  await page.emulateMedia({ forcedColors: null });
  return isDrawn;
}

/** Presses Tab until an element has the focus. @throws {Error} it is not among the next 30 */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 30; presses += 1) {
    await page.keyboard.press('Tab');
    if (await page.locator(selector).evaluate((element) => element === document.activeElement))
      return;
  }
  throw new Error(`Tab does not lead to ${selector}`);
}
