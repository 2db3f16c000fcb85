import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, matchesGlob, relative } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { LAYERS } from '../../oxlint.config.ts';

const PROJECT = join(import.meta.dirname, '../..');

/** Runs the project's lint configuration over a tree of its own; returns its complaints, empty if there are none. */
function lint(tree: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'layers-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  copyFileSync(join(PROJECT, 'oxlint.config.ts'), join(root, 'oxlint.config.ts'));
  symlinkSync(join(PROJECT, 'node_modules'), join(root, 'node_modules'));
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const oxlint = join(PROJECT, 'node_modules/oxlint/bin/oxlint');
  const { status, stdout } = spawnSync(process.execPath, [oxlint, 'src'], {
    cwd: root,
    encoding: 'utf8',
  });
  return status === 0 ? '' : stdout;
}

test('every file of the program is in exactly one layer', () => {
  const files = globSync('{src,config,workers,web,packages/client/src}/**/*.{ts,tsx}', {
    cwd: PROJECT,
  });
  expect(files.length).toBeGreaterThan(200);
  const layers = Object.values(LAYERS);
  const layersOf = (file: string) =>
    layers.filter((layer) => layer.files.some((glob) => matchesGlob(file, glob))).length;
  expect(files.filter((file) => layersOf(file) !== 1)).toEqual([]);
});

test('each folder of unit tests is one of the code', () => {
  const folders = globSync('test/unit/**/*.test.ts', { cwd: PROJECT }).map((file) =>
    dirname(relative('test/unit', file)),
  );
  const hasCode = (folder: string) =>
    ['src', '.'].some((top) => existsSync(join(PROJECT, top, folder)));
  expect(new Set(folders).size).toBeGreaterThan(30);
  expect(folders.filter((folder) => !hasCode(folder))).toEqual([]);
});

test('layers import only layers above them in the list', () => {
  const names = Object.keys(LAYERS);
  const upwards = Object.entries(LAYERS).flatMap(([name, { imports }]) =>
    imports.filter((other) => !names.slice(0, names.indexOf(name)).includes(other)),
  );
  expect(upwards).toEqual([]);
});

test('an import down passes', () => {
  expect(
    lint({
      'src/rooms/room.ts': `import { SIZE } from '../rtp/packet.ts';\nexport const size = SIZE;\n`,
      'src/rtp/packet.ts': 'export const SIZE = 12;\n',
    }),
  ).toBe('');
});

test('an import up fails, also of a type alone and from a folder inside', () => {
  const output = lint({
    'src/rooms/room.ts': 'export type Room = { name: string };\n',
    'src/audio/mixing/room-mixer.ts': `import type { Room } from '../../rooms/room.ts';\nexport type RoomMixer = { room: Room };\n`,
  });
  expect(output).toContain('audio may import base, protocol, rtp');
  expect(output).toContain('src/audio/mixing/room-mixer.ts');
});

test('a circle of types within a layer fails', () => {
  const output = lint({
    'src/rtp/packet.ts': `import type { Queue } from './queue.ts';\nexport type Packet = { queue: Queue };\n`,
    'src/rtp/queue.ts': `import type { Packet } from './packet.ts';\nexport type Queue = { first: Packet };\n`,
  });
  expect(output).toContain('no-cycle');
});
