import { defineConfig } from 'oxlint';

/** Files that belong together, and the lower layers that they may import. */
type Layer = { readonly files: readonly string[]; readonly imports: readonly string[] };

/**
 * The parts of the program, lowest first. Each may import only what it names, and names only what stands above it in this
 * list, so that imports never run in a circle. What is not named is refused by lint, types included.
 */
export const LAYERS: Readonly<Record<string, Layer>> = {
  base: {
    files: [
      'src/counts.ts',
      'src/message-fifo.ts',
      'src/network-of.ts',
      'src/resources.ts',
      'src/slices.ts',
      'src/stop-reading.ts',
      'src/token-bucket.ts',
      'src/version.ts',
    ],
    imports: [],
  },
  // The wire: messages, error and close codes, names.
  protocol: { files: ['src/protocol/**'], imports: ['base'] },
  config: { files: ['config/**'], imports: ['protocol'] },
  log: { files: ['src/log.ts', 'src/log-lines.ts'], imports: ['base', 'config'] },
  // RTP packets, and when they leave: bytes and arithmetic.
  rtp: { files: ['src/rtp/**'], imports: [] },
  // Redis.
  store: { files: ['src/store/**'], imports: ['base', 'protocol', 'config'] },
  // Formats, codecs and mixing.
  audio: { files: ['src/audio/**'], imports: ['base', 'protocol', 'rtp'] },
  // mediasoup: media workers, routers, transports.
  media: { files: ['src/media/**'], imports: ['base', 'protocol', 'config', 'rtp'] },
  children: { files: ['src/children/**'], imports: ['base', 'config'] },
  load: { files: ['src/load/**'], imports: ['base', 'protocol', 'config'] },
  accounts: {
    files: ['src/accounts/**'],
    imports: ['base', 'protocol', 'config', 'store', 'audio'],
  },
  usage: { files: ['src/usage/**'], imports: ['protocol', 'config', 'store', 'accounts'] },
  webhooks: { files: ['src/webhooks/**'], imports: ['protocol', 'config', 'store', 'accounts'] },
  // One peer's way between audio and media.
  bridge: { files: ['src/bridge/**'], imports: ['base', 'protocol', 'rtp', 'audio', 'media'] },
  // Rooms that span nodes.
  cluster: { files: ['src/cluster/**'], imports: ['base', 'protocol', 'config', 'store', 'media'] },
  rooms: {
    files: ['src/rooms/**'],
    imports: ['base', 'protocol', 'rtp', 'audio', 'media', 'bridge', 'cluster'],
  },
  operator: {
    files: ['src/operator/**'],
    imports: ['protocol', 'media', 'load', 'cluster', 'rooms'],
  },
  // One client, from its first message to its last.
  signaling: {
    files: ['src/signaling/**'],
    imports: [
      'base',
      'protocol',
      'config',
      'store',
      'audio',
      'accounts',
      'usage',
      'cluster',
      'rooms',
    ],
  },
  http: {
    files: ['src/http/**'],
    imports: [
      'base',
      'protocol',
      'config',
      'log',
      'store',
      'load',
      'accounts',
      'usage',
      'webhooks',
      'operator',
    ],
  },
  // Opens every part and hands each its settings.
  app: {
    files: ['src/app.ts'],
    imports: [
      'base',
      'config',
      'store',
      'audio',
      'media',
      'children',
      'load',
      'accounts',
      'usage',
      'webhooks',
      'cluster',
      'rooms',
      'operator',
      'signaling',
      'http',
    ],
  },
  // Several gateways on one port, and what a process does at its start and end.
  processes: {
    files: ['src/processes/**'],
    imports: ['base', 'config', 'log', 'store', 'children', 'accounts', 'app'],
  },
  cli: {
    files: ['src/cli/**'],
    imports: ['protocol', 'config', 'store', 'accounts', 'usage', 'processes'],
  },
  main: {
    files: ['src/main.ts', 'src/accounts-cli.ts'],
    imports: ['config', 'app', 'processes', 'cli'],
  },
  workers: {
    files: ['workers/**'],
    imports: ['base', 'config', 'log', 'store', 'accounts', 'usage', 'webhooks', 'processes'],
  },
  web: { files: ['web/**'], imports: ['protocol', 'operator'] },
};

/** Folders of the project that no layer may import. */
const OUTSIDE = ['**/bench/**', '**/test/**', '**/scripts/**'];

/** Layers in which mediasoup itself may be imported: the rest knows the classes of `media`. */
const WITH_MEDIASOUP = new Set(['protocol', 'media']);

/** Patterns of the import specifiers by which other folders name a layer's files. */
function specifiersOf({ files }: Layer): string[] {
  return files.map((file) => `**/${file.replace(/^src\//, '')}`);
}

const layerRules = Object.entries(LAYERS).map(([name, layer]) => {
  const others = Object.entries(LAYERS).filter(
    ([other]) => other !== name && !layer.imports.includes(other),
  );
  const packages = WITH_MEDIASOUP.has(name) ? [] : ['mediasoup', 'mediasoup/*'];
  const group = [...others.flatMap(([, other]) => specifiersOf(other)), ...OUTSIDE, ...packages];
  const allowed = layer.imports.join(', ') || 'no other layer';
  const message = `${name} may import ${allowed} (LAYERS in oxlint.config.ts)`;
  return {
    files: [...layer.files],
    rules: { 'no-restricted-imports': ['error', { patterns: [{ group, message }] }] },
  };
});

export default defineConfig({
  plugins: ['typescript', 'unicorn', 'import', 'promise', 'vitest'],
  categories: {
    correctness: 'error',
    suspicious: 'error',
  },
  rules: {
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'typescript/no-explicit-any': 'error',
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/no-unsafe-type-assertion': 'off',
    'typescript/consistent-return': 'off',
    'promise/always-return': 'off',
    'no-console': 'error',
    'no-empty': 'error',
  },
  ignorePatterns: ['build/**', 'data/**'],
  overrides: [
    ...layerRules,
    {
      files: ['test/**'],
      rules: {
        'unicorn/consistent-function-scoping': 'off',
        'vitest/expect-expect': ['error', { assertFunctionNames: ['expect', 'eventually'] }],
      },
    },
    {
      files: ['src/audio/resampler.ts'],
      rules: { 'no-underscore-dangle': 'off' },
    },
  ],
});
