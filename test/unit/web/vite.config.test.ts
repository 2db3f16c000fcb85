import { join } from 'node:path';
import { build } from 'vite';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
/** The first script of the page as it was without a view library. */
const MAX_FIRST_SCRIPT_BYTES = 34_341;
/** Everything that a page loads that joins by WebRTC. */
const MAX_SCRIPTS_BYTES = 257 * 1024;

async function buildPages() {
  const built = await build({
    configFile: join(ROOT, 'web/vite.config.ts'),
    build: { write: false },
  });
  if (Array.isArray(built) || !('output' in built)) throw new TypeError('no pages were built');
  const chunks = built.output.filter((file) => file.type === 'chunk');
  const chunkOf = (name: string) => chunks.find((chunk) => chunk.name === name)!;
  const bytesWith = (...names: string[]) => {
    const loaded = new Set(names.map((name) => chunkOf(name).fileName));
    for (const fileName of loaded) {
      const chunk = chunks.find((each) => each.fileName === fileName);
      for (const other of chunk?.imports ?? []) loaded.add(other);
    }
    const sizes = chunks.map(({ fileName, code }) =>
      loaded.has(fileName) ? Buffer.byteLength(code) : 0,
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  };
  const pages = built.output.flatMap((file) =>
    file.type === 'asset' && file.fileName.endsWith('.html') ? [String(file.source)] : [],
  );
  return { pages, bytesWith };
}

test('the scripts are no larger than without a view library, and no page holds a script or style', async () => {
  const { pages, bytesWith } = await buildPages();
  expect(bytesWith('page')).toBeLessThanOrEqual(MAX_FIRST_SCRIPT_BYTES);
  expect(bytesWith('admin')).toBeLessThanOrEqual(MAX_FIRST_SCRIPT_BYTES);
  expect(bytesWith('page', 'room-program', 'webrtc-audio')).toBeLessThanOrEqual(MAX_SCRIPTS_BYTES);
  expect(pages).toHaveLength(2);
  for (const page of pages) {
    expect(page).not.toMatch(/<script(?![^>]* src="[./]+assets\/)/);
    expect(page).not.toMatch(/<style|style=|(?:src|href)="data:|javascript:| on\w+=/);
  }
});
