import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { describeFault } from '../src/protocol/schema-faults.ts';
import { announcedFaults, listenFaults, pipeAddressFaults } from './listen-addresses.ts';
import { isSentinelUrl, isServerUrl, parseSentinelUrl } from './sentinel-url.ts';
import { type Timings, TIMINGS_VARIABLE } from './timings.ts';

/**
 * Every setting: its environment variable, default, unit and range. This is the only place that defines settings; the
 * table in docs/settings.md is made from it.
 */

const inProject = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));
/** Returns the number of cores that each of `processes` processes has to itself; at least one. */
const shareOfCores = (processes: number) =>
  Math.max(1, Math.floor(availableParallelism() / processes));
const port = { minimum: 0, maximum: 65535 };

const PORT = '([1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])';
/** A TURN server (RFC 7065): browsers refuse a whole list in which one is malformed. */
const TURN_URL = `turns?:(\\[[0-9A-Fa-f:.]+\\]|[\\w.-]+)(:${PORT})?(\\?transport=(udp|tcp))?`;

const SettingsSchema = Type.Object({
  HOST: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    description:
      'Address on which HTTP and WebSocket are served; of a name, localhost included, its first address, IPv4 before IPv6',
  }),
  PORT: Type.Integer({
    ...port,
    default: 3000,
    description: 'TCP port of HTTP and WebSocket; 0 takes a free one',
  }),
  PROCESSES: Type.Integer({
    default: 1,
    minimum: 1,
    maximum: 64,
    description: 'Gateway processes that share the port; each has media workers of its own',
  }),
  REDIS_URL: Type.String({
    default: '',
    pattern: '^((rediss?(\\+sentinel)?|unix)://.+)?$',
    description:
      'Redis that holds the state (redis:, rediss:, unix:///run/redis.sock for a socket, or redis+sentinel:, rediss+sentinel:); when empty, the gateway starts its own redis-server',
  }),
  SENTINEL_PASSWORD: Type.String({
    default: '',
    description:
      'Password of the sentinels named in REDIS_URL; when empty, none is sent to them. The password in REDIS_URL is for Redis alone',
  }),
  DATA_DIR: Type.String({
    default: inProject('data'),
    minLength: 1,
    description:
      "Folder of the gateway's own Redis, the demo account's key and minutes that were not written",
  }),
  DEMO_ACCOUNT: Type.Boolean({
    default: true,
    description:
      'Demo account on the pro plan, which is created and whose key is printed at the start',
  }),
  USAGE_WORKERS: Type.Integer({
    default: 1,
    minimum: 0,
    maximum: 16,
    description:
      'Usage workers that the gateway starts; 0 if they are run separately (npm run worker)',
  }),
  WORKER_PORT: Type.Integer({
    ...port,
    default: 0,
    description:
      'TCP port on HOST at which a usage worker that is run separately serves /metrics and /healthz; 0: none',
  }),
  USAGE_KEEP_DAYS: Type.Integer({
    default: 92,
    minimum: 1,
    maximum: 3660,
    description: 'Days for which usage by minute and by hour is kept; months are kept indefinitely',
  }),
  WEBHOOK_KEEP_HOURS: Type.Integer({
    default: 24,
    minimum: 1,
    maximum: 720,
    description: 'Hours after which a webhook event that was not accepted is given up',
  }),
  WEBHOOK_MAX_EVENTS: Type.Integer({
    default: 10_000,
    minimum: 100,
    maximum: 1_000_000,
    description:
      'Maximum number of webhook events of an account that wait; beyond it the oldest are given up',
  }),
  MEDIA_WORKERS: Type.Integer({
    default: shareOfCores(1),
    minimum: 1,
    maximum: 256,
    description:
      'Media worker processes of each gateway process; by default its share of the cores',
  }),
  MEDIASOUP_WORKER_BIN: Type.String({
    default: inProject('build/mediasoup-worker'),
    minLength: 1,
    description: 'The media worker program; set-up provides the default',
  }),
  RTC_LISTEN_IP: Type.String({
    default: '',
    description:
      'Addresses on which WebRTC media is received, IPv4 or IPv6, comma-separated, each with the address announced to browsers in its place (NAT) if that differs: 10.0.0.5=203.0.113.7,fd00::5; when empty, those of this machine (with TCP on loopback only), or 0.0.0.0 if RTC_ANNOUNCED_ADDRESS is set',
  }),
  RTC_ANNOUNCED_ADDRESS: Type.String({
    default: '',
    description:
      'Address or host name announced to browsers (NAT); RTC_LISTEN_IP then takes one address at most',
  }),
  RTC_PORT: Type.Integer({
    default: 30000,
    minimum: 1024,
    maximum: 65535,
    description:
      'WebRTC port, UDP and TCP, of the first media worker; each further one, of all processes, takes the next',
  }),
  RTC_TCP: Type.Boolean({
    default: true,
    description:
      'WebRTC over TCP too, for browsers that cannot send UDP; false closes the TCP ports, which anybody may fill with idle connections',
  }),
  TURN_URLS: Type.String({
    default: '',
    pattern: `^(${TURN_URL}( *, *${TURN_URL})*)?$`,
    description:
      'TURN servers for browsers, comma-separated: turn:turn.example.com:3478?transport=udp, turns:…',
  }),
  TURN_SECRET: Type.String({
    default: '',
    description:
      'Secret shared with the servers of TURN_URLS, from which credentials are made (coturn: static-auth-secret)',
  }),
  CLUSTER_KEY: Type.String({
    default: '',
    pattern: '^(.{16,})?$',
    description:
      'Key shared by all nodes that share a Redis, at least 16 characters; it encrypts the messages between them. When empty, a key stored in Redis is used',
  }),
  PIPE_LISTEN_IP: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    description:
      'Address on which audio from other nodes is received, or one of IPv4 and one of IPv6, comma-separated, each with the address announced to other nodes in its place (NAT) if that differs: 10.0.0.5,fd00::5',
  }),
  PIPE_ANNOUNCED_ADDRESS: Type.String({
    default: '',
    description: 'Address announced to other nodes in place of PIPE_LISTEN_IP (NAT, 0.0.0.0)',
  }),
  PIPE_PORT_MIN: Type.Integer({
    default: 20000,
    minimum: 1024,
    maximum: 65535,
    description:
      'First port of the range for audio between nodes: UDP, one for each room and node; TCP, one for each process',
  }),
  PIPE_PORT_MAX: Type.Integer({
    default: 29999,
    minimum: 1024,
    maximum: 65535,
    description: 'Last port of the range that begins at PIPE_PORT_MIN',
  }),
  ROUTER_MAX_CONSUMERS: Type.Integer({
    default: 500,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Number of consumers (browsers × speakers) of a room on one media worker at which its next browser goes to another; a speaker counts from its first sound (a browser: from the start of its microphone), so that earlier browsers share one media worker',
  }),
  OPUS_BITRATE_BPS: Type.Integer({
    default: 32000,
    minimum: 6000,
    maximum: 256000,
    description: 'Bit rate of the Opus that the gateway encodes, bit/s',
  }),
  OPUS_COMPLEXITY: Type.Integer({
    default: 5,
    minimum: 0,
    maximum: 10,
    description: 'Complexity of the Opus encoder',
  }),
  MIX_THREADS: Type.Integer({
    default: shareOfCores(1) - 1,
    minimum: 0,
    maximum: 256,
    description:
      'Maximum number of mixing threads of each process, started when mixing is too much for the event loop',
  }),
  MIX_MAX_SPEAKERS: Type.Integer({
    default: 8,
    minimum: 1,
    maximum: 64,
    description: 'Maximum number of speakers of a room mixed at once; the loudest win',
  }),
  TALK_THRESHOLD_DBOV: Type.Integer({
    default: -65,
    minimum: -126,
    maximum: 0,
    description: 'Level from which a speaker counts as talking, dBov',
  }),
  TALK_HOLD_MS: Type.Integer({
    default: 500,
    minimum: 100,
    maximum: 10000,
    description: 'Time for which a speaker counts as talking after the last sound, ms',
  }),
  OVERLOAD_LOOP_DELAY_MS: Type.Integer({
    default: 50,
    minimum: 0,
    maximum: 60_000,
    description:
      'Median delay of the event loop from which, for five seconds in a row, new clients are refused, ms; 0 disables the check',
  }),
  OVERLOAD_CPU_PERCENT: Type.Integer({
    default: 90,
    minimum: 0,
    maximum: 100,
    description:
      'CPU use from which, for five seconds in a row, new clients are refused: of all cores by this process, or of one core by its event loop, its decoder thread or a media worker, or by all of its mixing threads; 0 disables the check',
  }),
  OVERLOAD_MEMORY_MB: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1_048_576,
    description:
      'Resident memory of this process from which, for five seconds in a row, new clients are refused, MB; 0 disables the check',
  }),
  OPERATOR_KEY: Type.String({
    default: '',
    // One word of a header.
    pattern: '^([!-~]{16,})?$',
    description:
      'Key of /api/admin, at least 16 characters of ASCII without spaces; when empty, /api/admin is disabled',
  }),
  DRAIN_MS: Type.Integer({
    default: 5000,
    minimum: 0,
    maximum: 86_400_000,
    description: 'Time that clients have to leave after a drain begins before they are closed, ms',
  }),
  RESUME_MS: Type.Integer({
    default: 15_000,
    minimum: 0,
    maximum: 600_000,
    description: 'Time for which the place of a client whose connection was lost is kept, ms',
  }),
  TLS_CERT: Type.String({
    default: '',
    description: 'File with the certificate chain (PEM); with TLS_KEY, HTTPS and WSS are served',
  }),
  TLS_KEY: Type.String({
    default: '',
    description: 'File with the private key of TLS_CERT (PEM)',
  }),
  TRUST_PROXY: Type.String({
    default: '',
    description:
      'Addresses or networks of proxies, comma-separated, whose X-Forwarded-For is trusted',
  }),
  AUTH_FAILURES_PER_ADDRESS: Type.Integer({
    default: 120,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Failed authentications per minute from one address above which further ones are refused',
  }),
  AUTH_FAILURES_PER_KEY: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Failed authentications per minute with keys that begin, or tokens and invitations that end, with the same 8 characters; further ones are refused',
  }),
  REQUESTS_PER_ACCOUNT: Type.Integer({
    default: 15_000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Maximum number of REST requests per minute of one account',
  }),
  CONNECTIONS_PER_ADDRESS: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Maximum number of connections of one address (IPv6: one /64) to one process, not counting authenticated WebSockets and authenticated requests in progress',
  }),
  MESSAGES_PER_SECOND: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Text message budget of one connection, tokens per second (a join costs 5, a mute 2); five seconds of it may be spent at once',
  }),
  LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    description:
      'Minimum level of log lines: fatal, error, warn, info, debug, trace, or silent for none',
  }),
});

export type Settings = Static<typeof SettingsSchema>;

/** Faults of the environment, one sentence each. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly faults: string[];

  constructor(faults: string[]) {
    super(`Invalid settings:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

/**
 * Reads the settings; an empty variable counts as one that is not set.
 * @param check finds further faults, e.g. what only the machine can tell
 * @throws {SettingsError} with every fault at once
 */
export function readSettings(
  environment: Record<string, string | undefined>,
  check: (settings: Settings) => string[] = () => [],
): Settings {
  const given: Record<string, unknown> = {};
  const wrong = new Map<string, string>();
  for (const [name, schema] of Object.entries(SettingsSchema.properties)) {
    const text = environment[name]?.trim();
    if (!text) continue;
    const value = convert(text, schema);
    // One by one, because a validator reports only a few faults at once.
    const [fault] = Value.Errors(schema, value);
    if (fault) {
      const words = Type.IsBoolean(schema) ? 'must be true or false' : describeFault(fault);
      wrong.set(name, `${name} ${words} (${describe(schema)}).`);
    } else given[name] = value;
  }
  const settings = Value.Parse(SettingsSchema, Value.Default(SettingsSchema, { ...given }));
  const cores = shareOfCores(settings.PROCESSES);
  const shared = { ...settings, MEDIA_WORKERS: cores, MIX_THREADS: cores - 1, ...given };
  const isTold = (fault: string) => fault.split(/\W+/).some((name) => wrong.has(name));
  const further = [...crossChecks(shared), ...check(shared)].filter((fault) => !isTold(fault));
  const faults = [...wrong.values(), ...further];
  if (faults.length > 0) throw new SettingsError(faults);
  return shared;
}

const describe = (schema: object) => (schema as SettingDescription).description ?? '';

/** Environment of another process of this gateway, with the same settings and timings. */
export function environmentOf(
  settings: Settings,
  timings: Timings,
): Record<string, string | undefined> {
  const own = Object.entries(settings).map(([name, value]) => [name, String(value)]);
  return {
    ...process.env,
    ...Object.fromEntries(own),
    [TIMINGS_VARIABLE]: JSON.stringify(timings),
  };
}

/** Returns the value that a text stands for, or the text itself if it stands for none, so that the validator refuses it. */
function convert(text: string, schema: TSchema): unknown {
  if (Type.IsInteger(schema) && /^-?\d+$/.test(text)) return Number(text);
  if (Type.IsBoolean(schema) && /^(true|false)$/.test(text)) return text === 'true';
  return text;
}

function crossChecks(settings: Settings): string[] {
  const faults: string[] = [];
  faults.push(...redisFaults(settings), ...rtcFaults(settings));
  if ((settings.TLS_CERT === '') !== (settings.TLS_KEY === '')) {
    faults.push('TLS_CERT and TLS_KEY must be set together.');
  }
  if ((settings.TURN_URLS === '') !== (settings.TURN_SECRET === '')) {
    faults.push('TURN_URLS and TURN_SECRET must be set together.');
  }
  faults.push(...pipeFaults(settings));
  if (settings.PIPE_PORT_MIN > settings.PIPE_PORT_MAX) {
    faults.push('PIPE_PORT_MIN must not be above PIPE_PORT_MAX.');
  }
  if (settings.RTC_PORT + settings.PROCESSES * settings.MEDIA_WORKERS - 1 > 65535) {
    faults.push(
      'RTC_PORT is too high: PROCESSES × MEDIA_WORKERS ports from it on must be below 65536.',
    );
  }
  return faults;
}

function redisFaults({ REDIS_URL: url, SENTINEL_PASSWORD: password }: Settings): string[] {
  if (isSentinelUrl(url) && !parseSentinelUrl(url)) {
    const form =
      'redis+sentinel://[user:password@]host[:port],host[:port]/name[/database] (rediss+sentinel: for TLS)';
    return [`REDIS_URL must be of the form ${form}.`];
  }
  if (/^rediss?:/.test(url) && !isServerUrl(url)) {
    const form = 'redis://[user:password@]host[:port][/database] (rediss: for TLS)';
    return [`REDIS_URL must be of the form ${form}, user and password percent-encoded.`];
  }
  if (password !== '' && !isSentinelUrl(url)) {
    return ['SENTINEL_PASSWORD needs a REDIS_URL of redis+sentinel: or rediss+sentinel:.'];
  }
  return [];
}

function rtcFaults({ RTC_LISTEN_IP: list, RTC_ANNOUNCED_ADDRESS: common }: Settings): string[] {
  const names = { list: 'RTC_LISTEN_IP', announced: 'RTC_ANNOUNCED_ADDRESS' };
  const faults = announcedFaults(names.announced, common);
  return list === '' ? faults : [...faults, ...listenFaults(names, list, common)];
}

function pipeFaults({ PIPE_LISTEN_IP: list, PIPE_ANNOUNCED_ADDRESS: common }: Settings): string[] {
  const names = { list: 'PIPE_LISTEN_IP', announced: 'PIPE_ANNOUNCED_ADDRESS' };
  const faults = listenFaults(names, list, common);
  return faults.length > 0 ? faults : pipeAddressFaults(names, list, common);
}

type SettingDescription = {
  default?: unknown;
  description?: string;
  minimum?: number;
  maximum?: number;
};

/** The settings as a Markdown table, for docs/settings.md. */
export function settingsTable(): string {
  const properties = Object.entries(SettingsSchema.properties) as [string, SettingDescription][];
  const rows = properties.map(([name, setting]) => {
    const range = setting.minimum === undefined ? '' : `${setting.minimum}…${setting.maximum}`;
    return `| \`${name}\` | ${describeDefault(name, setting.default)} | ${range} | ${setting.description} |`;
  });
  return ['| variable | default | range | meaning |', '|---|---|---|---|', ...rows].join('\n');
}

function describeDefault(name: string, value: unknown): string {
  if (name === 'MEDIA_WORKERS') return 'cores / `PROCESSES`';
  if (name === 'MIX_THREADS') return 'cores / `PROCESSES` − 1';
  if (value === '') return '(empty)';
  return `\`${String(value).replace(inProject(''), '')}\``;
}
