import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, matchesGlob } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { LAYERS } from '../../oxlint.config.ts';

const PROJECT = join(import.meta.dirname, '../..');

type Fault = { file: string; rule: string; message: string };

const CYCLE = 'import(no-cycle)';
const RESTRICTED = 'eslint(no-restricted-imports)';

/** Runs the project's lint configuration over a tree of its own; returns its errors, sorted by file. */
function lint(tree: Record<string, string>): Fault[] {
  const root = mkdtempSync(join(tmpdir(), 'layers-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  copyFileSync(join(PROJECT, 'oxlint.config.ts'), join(root, 'oxlint.config.ts'));
  symlinkSync(join(PROJECT, 'node_modules'), join(root, 'node_modules'));
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const oxlint = join(PROJECT, 'node_modules/oxlint/bin/oxlint');
  const { stdout } = spawnSync(process.execPath, [oxlint, '--format=json', ...topsOf(tree)], {
    cwd: root,
    encoding: 'utf8',
  });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { filename: string; code: string; severity: string; help?: string }[];
  };
  return diagnostics
    .filter(({ severity }) => severity === 'error')
    .map(({ filename, code, help = '' }) => ({ file: filename, rule: code, message: help }))
    .toSorted((one, other) => one.file.localeCompare(other.file));
}

const topsOf = (tree: Record<string, string>) => [
  ...new Set(Object.keys(tree).map((path) => path.split('/')[0]!)),
];

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
  ).toEqual([]);
});

test('an import up fails, also of a type alone and from a folder inside', () => {
  const faults = lint({
    'src/rooms/room.ts': 'export type Room = { name: string };\n',
    'src/audio/mixing/room-mixer.ts': `import type { Room } from '../../rooms/room.ts';\nexport type RoomMixer = { room: Room };\n`,
  });
  expect(faults).toEqual([
    {
      file: 'src/audio/mixing/room-mixer.ts',
      rule: RESTRICTED,
      message: 'audio may import base, protocol, rtp (LAYERS in oxlint.config.ts)',
    },
  ]);
});

test('an import of the client by the name of its package fails, but for the pages', () => {
  const text = `import type { Transport } from 'partyline-client';\nexport type Way = Transport;\n`;
  const ofFile = text.replace('partyline-client', 'partyline-client/worklet.js');
  const tree = { 'src/session/session.ts': text, 'config/settings.ts': ofFile };
  expect(lint({ ...tree, 'web/page-state.ts': text })).toEqual(
    ['config/settings.ts', 'src/session/session.ts'].map((file) =>
      expect.objectContaining({ file, rule: RESTRICTED }),
    ),
  );
});

test('an import of the canary, or of examples, fails', () => {
  const tree = Object.fromEntries(
    [
      '@partyline/canary',
      '../../packages/canary/src/connection.ts',
      '../../examples/node/room.mjs',
    ].map((from, i) => [`src/rooms/room-${i}.ts`, `export * from '${from}';\n`] as const),
  );
  const rules = lint(tree).map(({ file, rule }) => [file, rule]);
  expect(rules).toEqual(Object.keys(tree).map((file) => [file, RESTRICTED]));
});

test('a circle of types within a layer fails', () => {
  const faults = lint({
    'src/rtp/packet.ts': `import type { Queue } from './queue.ts';\nexport type Packet = { queue: Queue };\n`,
    'src/rtp/queue.ts': `import type { Packet } from './packet.ts';\nexport type Queue = { first: Packet };\n`,
  });
  expect(faults.map(({ file, rule }) => [file, rule])).toEqual([
    ['src/rtp/packet.ts', CYCLE],
    ['src/rtp/queue.ts', CYCLE],
  ]);
});

/** Files of the tree before LAYERS (commit bcfe583) that stood in a circle or pointed up, with the imports by which they did. */
const BEFORE = {
  'bench/soak/claims.ts': `import type { SoakAccount } from './soak.ts';`,
  'bench/soak/soak.ts': `import { checkClaims, type Claim, findGhosts, type Seen } from './claims.ts';`,
  'src/app.ts': `import { startUsageWorker } from './processes/usage-worker-process.ts';`,
  'src/audio/codecs.ts': `import { loadOpusCodec, type OpusCodec } from './opus-codec.ts';`,
  'src/audio/ingest/container-ingest.ts': `import type { Ingest } from './ingest.ts';`,
  'src/audio/ingest/ingest.ts': `
    import { ContainerIngest } from './container-ingest.ts';
    import { OpusIngest } from './opus-ingest.ts';
    import { SampleIngest } from './sample-ingest.ts';`,
  'src/audio/ingest/opus-ingest.ts': `import type { Ingest, OpusSink } from './ingest.ts';`,
  'src/audio/ingest/sample-ingest.ts': `import type { Ingest, OpusSink } from './ingest.ts';`,
  'src/audio/opus-codec.ts': `import type { CodecSettings } from './codecs.ts';`,
  'src/protocol/messages.ts': `
    import type {
      DtlsParameters,
      IceCandidate,
      IceParameters,
      RtpCapabilities,
      RtpParameters,
    } from '../media/types.ts';
    import type { IceServer } from '../media/ice-servers.ts';`,
  'src/protocol/webrtc-parameters.ts': `import type { DtlsParameters, RtpCapabilities, RtpParameters } from '../media/types.ts';`,
};

test('the circles and the imports up of the tree before LAYERS fail', () => {
  const rules = lint(BEFORE)
    .filter(({ rule }) => rule === CYCLE || rule === RESTRICTED)
    .map(({ file, rule }) => [file, rule]);
  expect(rules).toEqual([
    ['bench/soak/claims.ts', CYCLE],
    ['bench/soak/soak.ts', CYCLE],
    ['src/app.ts', RESTRICTED],
    ['src/audio/codecs.ts', CYCLE],
    ['src/audio/ingest/container-ingest.ts', CYCLE],
    // Once for each of its imports.
    ['src/audio/ingest/ingest.ts', CYCLE],
    ['src/audio/ingest/ingest.ts', CYCLE],
    ['src/audio/ingest/ingest.ts', CYCLE],
    ['src/audio/ingest/opus-ingest.ts', CYCLE],
    ['src/audio/ingest/sample-ingest.ts', CYCLE],
    ['src/audio/opus-codec.ts', CYCLE],
    ['src/protocol/messages.ts', RESTRICTED],
    ['src/protocol/messages.ts', RESTRICTED],
    ['src/protocol/webrtc-parameters.ts', RESTRICTED],
  ]);
});

test('an import that runs later, or stands in a type, names no layer that the file may not import', () => {
  const files = globSync('{src,config,workers,web,packages/client/src}/**/*.{ts,tsx}', {
    cwd: PROJECT,
  });
  const layerOf = (file: string) =>
    Object.entries(LAYERS).find(([, layer]) => layer.files.some((glob) => matchesGlob(file, glob)));
  const targetOf = (file: string, to: string) =>
    to.startsWith('.')
      ? (layerOf(join(dirname(file), to))?.[0] ?? to)
      : Object.entries(LAYERS).find(([, { packageName }]) => packageName === to.split('/')[0])?.[0];
  const found = files.flatMap((file) => {
    const text = readFileSync(join(PROJECT, file), 'utf8');
    return [...text.matchAll(/\bimport\(\s*'([^']+)'/g)].flatMap(([, to = '']) => {
      const target = targetOf(file, to);
      return target === undefined ? [] : [{ file, target }];
    });
  });
  expect(found.length).toBeGreaterThan(3);
  const upwards = found.filter(({ file, target }) => {
    const [name, layer] = layerOf(file)!;
    return target !== name && !layer.imports.includes(target);
  });
  expect(upwards).toEqual([]);
});
