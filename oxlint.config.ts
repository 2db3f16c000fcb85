import { defineConfig } from 'oxlint';

/** Files that belong together, and the lower layers that they may import. */
type Layer = {
  readonly holds: string;
  readonly files: readonly string[];
  readonly imports: readonly string[];
  /** Name of the npm package that the files are, by which they are imported as well. */
  readonly packageName?: string;
};

/**
 * The parts of the program, lowest first. Each may import only what it names, and names only what stands above it in
 * this list, so that imports never run in a circle. Lint refuses every other import, types included.
 */
export const LAYERS: Readonly<Record<string, Layer>> = {
  base: {
    holds: 'Counters, queues, token buckets: what every layer may need',
    files: [
      'src/counters.ts',
      'src/listen-address.ts',
      'src/log-once-a-second.ts',
      'src/loop-time.ts',
      'src/message-fifo.ts',
      'src/network-of.ts',
      'src/process-metrics.ts',
      'src/resources.ts',
      'src/slices.ts',
      'src/time-limit.ts',
      'src/token-bucket.ts',
      'src/version.ts',
    ],
    imports: [],
  },
  protocol: {
    holds: 'The wire: messages, errors and close codes, names',
    files: ['src/protocol/**'],
    imports: ['base'],
  },
  config: {
    holds: 'Settings and timings',
    files: ['config/**'],
    imports: ['protocol'],
  },
  log: {
    holds: 'The logger',
    files: ['src/log.ts', 'src/log-lines.ts', 'src/stdout.ts'],
    imports: ['base', 'config'],
  },
  rtp: {
    holds: 'RTP packets and when they are due: bytes and arithmetic',
    files: ['src/rtp/**'],
    imports: [],
  },
  store: {
    holds: 'Redis: connection, keys, scripts, clock, the data folder',
    files: ['src/store/**'],
    imports: ['base', 'protocol', 'config'],
  },
  audio: {
    holds: 'Formats, codecs, detection and mixing',
    files: ['src/audio/**'],
    imports: ['base', 'protocol', 'rtp'],
  },
  media: {
    holds: 'mediasoup: media workers, routers, legs, pipes',
    files: ['src/media/**'],
    imports: ['base', 'protocol', 'config', 'rtp'],
  },
  handover: {
    holds: 'A connection on its way to another process, without the loss of a byte',
    files: ['src/handover/**'],
    imports: [],
  },
  children: {
    holds: 'Child processes that are started again when they end',
    files: ['src/children/**'],
    imports: ['base', 'config', 'handover'],
  },
  load: {
    holds: 'Resources that run out: CPU, memory, descriptors',
    files: ['src/load/**'],
    imports: ['base', 'protocol', 'config'],
  },
  accounts: {
    holds: 'Accounts, keys, tokens, rate limits',
    files: ['src/accounts/**'],
    imports: ['base', 'protocol', 'config', 'store', 'audio'],
  },
  usage: {
    holds: 'Minutes, quotas, leases of connections',
    files: ['src/usage/**'],
    imports: ['base', 'protocol', 'config', 'store', 'accounts'],
  },
  webhooks: {
    holds: 'Events of rooms for webhooks',
    files: ['src/webhooks/**'],
    imports: ['protocol', 'config', 'store', 'accounts'],
  },
  bridge: {
    holds: "One peer's way between audio and media",
    files: ['src/bridge/**'],
    imports: ['base', 'protocol', 'rtp', 'audio', 'media'],
  },
  cluster: {
    holds: 'Rooms that span nodes',
    files: ['src/cluster/**'],
    imports: ['base', 'protocol', 'config', 'store', 'media'],
  },
  rooms: {
    holds: 'Rooms and their peers',
    files: ['src/rooms/**'],
    imports: ['base', 'protocol', 'rtp', 'audio', 'media', 'bridge', 'cluster'],
  },
  operator: {
    holds: 'Views and actions of an operator, on all nodes',
    files: ['src/operator/**'],
    imports: ['protocol', 'media', 'load', 'cluster', 'rooms'],
  },
  session: {
    holds: 'One client: its messages, its sound both ways, and its place in a room',
    files: ['src/session/**'],
    imports: ['base', 'protocol', 'config', 'audio', 'accounts', 'usage', 'rooms'],
  },
  admission: {
    holds: 'Admission: which clients may come in, by which connection, and until when',
    files: ['src/admission/**'],
    imports: [
      'base',
      'protocol',
      'config',
      'store',
      'audio',
      'handover',
      'accounts',
      'usage',
      'cluster',
      'rooms',
      'session',
    ],
  },
  http: {
    holds: 'REST, metrics and the pages',
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
  whip: {
    holds: 'Clients of WHIP and WHEP',
    files: ['src/whip/**'],
    imports: [
      'protocol',
      'config',
      'media',
      'accounts',
      'usage',
      'cluster',
      'rooms',
      'session',
      'admission',
      'http',
    ],
  },
  app: {
    holds: 'Opens every part and hands each its settings',
    files: ['src/app.ts', 'src/app/**'],
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
      'session',
      'admission',
      'http',
      'whip',
    ],
  },
  processes: {
    holds: 'Several gateways on one port; start and end of a process',
    files: ['src/processes/**'],
    imports: [
      'base',
      'config',
      'log',
      'store',
      'handover',
      'children',
      'accounts',
      'admission',
      'http',
      'app',
    ],
  },
  cli: {
    holds: 'The command `npm run accounts`',
    files: ['src/cli/**'],
    imports: ['protocol', 'config', 'store', 'accounts', 'usage', 'processes'],
  },
  main: {
    holds: 'Entry points',
    files: ['src/main.ts', 'src/accounts-cli.ts'],
    imports: ['config', 'app', 'processes', 'cli'],
  },
  workers: {
    holds: 'The usage worker',
    files: ['workers/**'],
    imports: ['base', 'config', 'log', 'store', 'accounts', 'usage', 'webhooks', 'processes'],
  },
  client: {
    holds: 'The client for browsers, a package of its own',
    files: ['packages/client/**'],
    packageName: 'partyline-client',
    imports: ['protocol'],
  },
  web: {
    holds: 'The pages',
    files: ['web/**'],
    imports: ['protocol', 'operator', 'client'],
  },
};

/** Folders of the project that no layer may import. */
const OUTSIDE = [
  '**/bench/**',
  '**/test/**',
  '**/scripts/**',
  '**/examples/**',
  '**/packages/canary/**',
  '@partyline/canary',
  '@partyline/canary/**',
];

/** Layers in which mediasoup itself may be imported: the rest knows the classes of `media`. */
const WITH_MEDIASOUP = new Set(['protocol', 'media']);

/** Patterns of the import specifiers by which other folders name a layer's files. */
function specifiersOf({ files, packageName }: Layer): string[] {
  const paths = files.map((file) => `**/${file.replace(/^src\//, '')}`);
  return packageName === undefined ? paths : [...paths, packageName, `${packageName}/**`];
}

type RefusedImports = ['error', { patterns: { group: string[]; message: string }[] }];

const refuse = (group: string[], message: string): RefusedImports => [
  'error',
  { patterns: [{ group, message }] },
];

const layerRules = Object.entries(LAYERS).map(([name, layer]) => {
  const others = Object.entries(LAYERS).filter(
    ([other]) => other !== name && !layer.imports.includes(other),
  );
  const packages = WITH_MEDIASOUP.has(name) ? [] : ['mediasoup', 'mediasoup/*'];
  const group = [...others.flatMap(([, other]) => specifiersOf(other)), ...OUTSIDE, ...packages];
  const allowed = layer.imports.join(', ') || 'no other layer';
  const message = `${name} may import ${allowed} (LAYERS in oxlint.config.ts)`;
  return { files: [...layer.files], rules: { 'no-restricted-imports': refuse(group, message) } };
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
  ignorePatterns: ['build/**', 'data/**', 'packages/*/dist/**'],
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
      // Ports and workers take no origin.
      files: ['packages/client/**'],
      rules: { 'unicorn/require-post-message-target-origin': 'off' },
    },
    {
      // Short, and for a person at a terminal.
      files: ['examples/**'],
      rules: { 'no-console': 'off', 'unicorn/prefer-add-event-listener': 'off' },
    },
    {
      // Vite gives addresses in place of these files.
      files: ['web/sound-files.ts'],
      rules: { 'import/default': 'off' },
    },
    {
      files: ['src/audio/resampler.ts'],
      rules: { 'no-underscore-dangle': 'off' },
    },
  ],
});
