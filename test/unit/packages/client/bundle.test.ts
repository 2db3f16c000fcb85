import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

const CLIENT = join(import.meta.dirname, '../../../../packages/client');
const MAX_BYTES = 25 * 1024;

test('the client without mediasoup-client and codecs is at most 25 KB gzipped', async () => {
  const { metafile, outputFiles } = await build({
    absWorkingDir: CLIENT,
    entryPoints: ['src/index.ts'],
    outdir: 'dist',
    external: ['mediasoup-client'],
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    metafile: true,
    write: false,
  });
  const bytes = outputFiles.map(({ contents }) => gzipSync(contents).length);
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MAX_BYTES);

  const [first] = Object.values(metafile.outputs).filter(
    ({ entryPoint }) => entryPoint === 'src/index.ts',
  );
  const loadedAtOnce = first!.imports.filter(({ kind }) => kind === 'import-statement');
  expect(loadedAtOnce.map(({ path }) => path)).not.toContain('mediasoup-client');
  // WebRTC alone, for the sake of mediasoup-client: the WebSocket must be there when that cannot be
  // loaded.
  expect(first!.imports.filter(({ kind }) => kind === 'dynamic-import')).toHaveLength(1);
});
