import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

/**
 * The layout of test/unit mirrors the code. A test has the path of the module, or folder, that it tests; a further file on the same one adds its
 * subject: `audio/ingest/input.changes.test.ts`. Modules of a package stand without `src` in their path, those of test/ as they do there.
 */

/** Tests of several modules together, in the folder that holds most of these. */
const SCENARIOS = [
  'audio/bursts-heard',
  'audio/double-talk',
  'audio/dtx',
  'audio/entries',
  'audio/first-burst',
  'audio/formats',
  'audio/ingest/container-readers',
  'audio/ingest/detection/detection-work',
  'audio/ingest/detection/unvoiced-copies',
  'audio/ingest/late-decoder',
  'audio/ingest/parser-properties',
  'audio/ingest/vorbis',
  'audio/ingest/wav',
  'audio/latency',
  'audio/lossy-speech',
  'audio/mixing/faults',
  'audio/mixing/long-pause',
  'audio/mixing/room-clock',
  'audio/mixing/skipped-ticks',
  'audio/network',
  'audio/spaced-words',
  'audio/spectral-distance',
  'audio/spoken-words',
  'audio/switching',
  'audio/turns',
  'packages/canary/canary',
  'packages/client/audio',
  'rtp/bursty-senders',
  'session/friendly-senders',
  'session/muted-sound',
  'session/reading',
  'web/addresses',
];

/** Tests of the whole project, or of a whole package. */
const OF_ALL = [
  'examples/page/page',
  'kept-names',
  'layers',
  'layout',
  'links',
  'packages/client/bundle',
  'packages/client/docs',
  'security-page',
];

const PROJECT = join(import.meta.dirname, '../..');
const UNIT = join(PROJECT, 'test/unit');
const FOLDERS = ['src', '.', 'test'];
const ENDINGS = ['', '.ts', '.tsx', '.js', '.mjs', '.html', '.yml'];

const TESTS = globSync('**/*.test.ts', { cwd: UNIT }).map((file) =>
  file.replace(/\.test\.ts$/, ''),
);

/** Returns where the code of a path in test/unit may be. */
const codeOf = (path: string): string[] => [
  ...FOLDERS.map((folder) => join(PROJECT, folder, path)),
  join(PROJECT, path.replace(/^(packages\/[^/]+)/, '$1/src')),
];

/** True if a test has the path of a module or of a folder, with or without a subject. */
function isOfModule(path: string): boolean {
  const paths = [path, path.replace(/\.[^./]+$/, '')];
  return paths
    .flatMap(codeOf)
    .some((code) => ENDINGS.some((ending) => existsSync(`${code}${ending}`)));
}

test('each unit test is one of a module, or is listed as one of several', () => {
  expect(TESTS.length).toBeGreaterThan(230);
  const others = TESTS.filter((path) => !isOfModule(path)).toSorted();
  expect(others).toEqual([...SCENARIOS, ...OF_ALL].toSorted());
});

test.each(SCENARIOS)('%s tests modules together', (path) => {
  const file = join(UNIT, `${path}.test.ts`);
  const imports = readFileSync(file, 'utf8').matchAll(/^(?:import|\}) .*from '(\..*)';$/gm);
  const paths = [...imports].map(([, from = '']) => relative(PROJECT, join(dirname(file), from)));
  const modules = new Set(paths.filter((module) => !module.startsWith('test/')));
  expect(modules.size).toBeGreaterThan(1);
});

test('each folder of unit tests is one of the code', () => {
  const folders = new Set(TESTS.map(dirname));
  expect(folders.size).toBeGreaterThan(30);
  expect([...folders].filter((folder) => !codeOf(folder).some((code) => existsSync(code)))).toEqual(
    [],
  );
});
