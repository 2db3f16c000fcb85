import type { Page } from 'puppeteer-core';

/** Fills in the page's form and presses a button; resolves when the room is shown. */
export async function joinByForm(
  page: Page,
  room: string,
  peer: string,
  apiKey: string,
  button = '#join',
): Promise<void> {
  await page.type('#room', room);
  await page.type('#peer', peer);
  await page.type('#api-key', apiKey);
  await page.click(button);
  await page.waitForSelector('#room-view', { visible: true });
}
