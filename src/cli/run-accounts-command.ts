import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { readSettings } from '../../config/settings.ts';
import { readTimings } from '../../config/timings.ts';
import { Accounts } from '../accounts/accounts.ts';
import { SigningKeys } from '../accounts/signing-keys.ts';
import { describeStartupError } from '../processes/end-on-signals.ts';
import { PartylineError } from '../protocol/errors.ts';
import { openCommandRedis, redisAddressOf } from '../store/open-redis.ts';
import { Redis } from '../store/redis.ts';
import { RedisClock } from '../store/redis-clock.ts';
import { requireVersion } from '../store/redis-version.ts';
import { claimFormat } from '../store/state-format.ts';
import { UsageReader } from '../usage/usage-reader.ts';
import { type Ask, COMMANDS, MAX_ARGUMENTS, OPTIONS } from './accounts-commands.ts';

const USAGE = `npm run accounts -- COMMAND [--json]

  create --name NAME --email EMAIL [--plan free|starter|pro] [--default-audio F] [--pinned-audio F]
         [--webhook-url URL]
  list
  show ID
  set-plan ID free|starter|pro
  set-audio ID [--default-audio F] [--pinned-audio F]   "" removes one
  set-webhook ID URL    prints a new secret, which can be seen only now; "" removes the URL
  suspend ID        its sockets close with 4403 at once; activate undoes this
  activate ID
  close ID          for good; on a terminal it asks first
  key-add ID        prints a new key, which can be seen only now
  key-revoke ID KEY_ID
  rotate-token-key [--now]
                    signs new tokens and invitations with a new key. Old ones stay valid until they expire; --now
                    ends them at once, and closes the connections of tokens
  usage ID [--from DATE] [--to DATE] [--granularity minute|hour|day]

--json prints one line of JSON for scripts (npm run --silent accounts -- …). The Redis is that of REDIS_URL, or the
gateway's own in DATA_DIR.
`;

type Environment = Record<string, string | undefined>;

/** Streams to which a command writes: its result to `stdout`, progress and faults to `stderr`. */
export type CommandStreams = {
  /** Writes a part of the result, and resolves when the next one may follow. Rejects with `EPIPE` if the reader wants no more. */
  stdout: { write(text: string): Promise<void> };
  stderr: { write(text: string): unknown };
  /** Asks the person at the terminal; undefined where there is none. */
  ask?: Ask | undefined;
};

/**
 * Runs one accounts command to its end, without touching the process that it runs in.
 * @param words the command, its arguments and options
 * @returns the exit code: 0, 1 for a fault of the system, 2 for a mistake in the command itself
 */
export async function runAccountsCommand(
  words: string[],
  environment: Environment,
  streams: CommandStreams,
): Promise<number> {
  try {
    await run(words, environment, streams);
    return 0;
  } catch (fault) {
    if (fault instanceof Error && 'code' in fault && fault.code === 'EPIPE') return 0;
    const isOwnMistake = isMistake(fault);
    streams.stderr.write(
      `${isOwnMistake ? (fault as Error).message : describeStartupError(fault)}\n`,
    );
    return isOwnMistake ? 2 : 1;
  }
}

const isMistake = (fault: unknown) =>
  fault instanceof TypeError ||
  (fault instanceof PartylineError && ['bad_request', 'not_found'].includes(fault.code));

async function run(
  words: string[],
  environment: Environment,
  { stdout, stderr, ask }: CommandStreams,
): Promise<void> {
  const { positionals, values } = parseArgs({
    args: words,
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      name: { type: 'string' },
      email: { type: 'string' },
      plan: { type: 'string' },
      'default-audio': { type: 'string' },
      'pinned-audio': { type: 'string' },
      'webhook-url': { type: 'string' },
      from: { type: 'string' },
      to: { type: 'string' },
      granularity: { type: 'string' },
      now: { type: 'boolean' },
    },
  });
  const [name = '', ...ids] = positionals;
  const { json: isJson, help: isHelp, ...options } = values;
  if (isHelp) return stdout.write(USAGE);
  // Every object has a `constructor`.
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    const unknown = `There is no command "${name}": "npm run accounts -- --help" lists all there are.`;
    throw new PartylineError('bad_request', name === '' ? USAGE : unknown);
  }
  const tooMany = ids.slice(MAX_ARGUMENTS[name] ?? 1);
  if (tooMany.length > 0) {
    throw new PartylineError('bad_request', `${name} does not take "${tooMany.join(' ')}".`);
  }
  const others = Object.keys(options).filter((option) => !OPTIONS[name]?.includes(option));
  if (others.length > 0) {
    const listed = others.map((option) => `--${option}`).join(', ');
    throw new PartylineError('bad_request', `${name} does not take ${listed}.`);
  }
  const onLoading = (percent: number) => {
    stderr.write(`Redis is loading its data: ${Math.round(percent)} %\n`);
  };
  const onNew = (dataDir: string) => {
    stderr.write(`REDIS_URL is not set: this works on a new Redis in ${dataDir} (DATA_DIR).\n`);
  };
  await withRedis(environment, { onLoading, onNew }, async (redis, clock) => {
    const accounts = new Accounts(redis);
    const usage = new UsageReader(redis);
    const signingKeys = new SigningKeys(redis, clock);
    const result = await command({ accounts, usage, signingKeys, clock, ask }, ids, options);
    if ('text' in result) {
      await stdout.write(`${isJson ? JSON.stringify(result.json) : result.text}\n`);
    } else {
      for await (const part of result.parts(isJson)) await stdout.write(part);
    }
  });
}

/** The gateway's own Redis is started for as long as `work` takes, if no gateway runs. */
async function withRedis(
  environment: Environment,
  { onLoading, onNew }: { onLoading: (percent: number) => void; onNew: (dataDir: string) => void },
  work: (redis: Redis, clock: RedisClock) => Promise<void>,
): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const settings = readSettings(environment);
  const { redis: timings, nodes } = readTimings(environment);
  const log = pino({ level: 'silent' });
  await openCommandRedis({ settings, timings, opened, log }, () => onNew(settings.DATA_DIR));
  const redis = await Redis.connect(redisAddressOf(settings), log, timings, { onLoading });
  opened.adopt(redis, (part) => part.close());
  await requireVersion(redis);
  await claimFormat(redis, nodes.deadAfterMs);
  const clock = opened.adopt(await RedisClock.open(redis, log, timings), (part) => part.close());
  await work(redis, clock);
}
