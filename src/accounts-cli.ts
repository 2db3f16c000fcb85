import { parseArgs } from 'node:util';
import Fastify from 'fastify';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { readSettings } from '../config/settings.ts';
import { readTimings } from '../config/timings.ts';
import { PartylineError } from './protocol/errors.ts';
import { OWNER_ONLY_UMASK, whyNotStarted } from './processes/end-on-signals.ts';
import { describeFaults } from './protocol/schema-faults.ts';
import { Redis } from './store/redis.ts';
import { openCommandRedis, redisAddressOf } from './store/open-redis.ts';
import { collectReport, reportUsage, UsageQuerySchema } from './usage/report.ts';
import { UsageReader } from './usage/usage-reader.ts';
import { Tokens } from './accounts/tokens.ts';
import { type AccountChanges, Accounts, StoredAccountSchema } from './accounts/accounts.ts';

/** The operator's command, `npm run accounts -- …`: what an operator does with accounts, straight in Redis. */

const USAGE = `npm run accounts -- COMMAND [--json]

  create --name NAME --email EMAIL [--plan free|starter|pro] [--default-audio F] [--pinned-audio F]
         [--webhook-url URL]
  list
  show ID
  set-plan ID free|starter|pro
  set-audio ID [--default-audio F] [--pinned-audio F]   "" takes one away
  set-webhook ID URL    prints a new secret, which can be seen only now; "" takes the URL away
  suspend ID        its sockets close with 4403 at once; activate takes it back
  activate ID
  close ID          for good
  key-add ID        prints a new key, which can be seen only now
  key-revoke ID KEY_ID
  rotate-token-key [--now]
                    tokens are signed with a new key; those of the key before stay good until they expire, or, with
                    --now, end at once, and with them the connections that were made with them
  usage ID [--from DATE] [--to DATE] [--granularity minute|hour|day]

--json prints one line of JSON for scripts (npm run --silent accounts -- …). The Redis is that of REDIS_URL, or the
gateway's own in DATA_DIR.
`;

type Options = Partial<
  Record<
    | 'name'
    | 'email'
    | 'plan'
    | 'default-audio'
    | 'pinned-audio'
    | 'webhook-url'
    | 'from'
    | 'to'
    | 'granularity',
    string
  >
> & { now: boolean };
type Result = { json: unknown; text: string };
type Stores = { accounts: Accounts; usage: UsageReader; tokens: Tokens };
type Command = (stores: Stores, ids: string[], options: Options) => Promise<Result>;

const accountValidator = Compile(StoredAccountSchema);
const queryValidator = Compile(UsageQuerySchema);

const idOf = (text: string | undefined): number => {
  if (text && /^[1-9]\d*$/.test(text)) return Number(text);
  const what = text ? `"${text}" is not an account id` : 'The account id is missing';
  throw new PartylineError('bad_request', `${what}: give its number, which "list" shows.`);
};

const needUrl = (): never => {
  throw new PartylineError('bad_request', 'The URL is missing; "" takes it away.');
};

const KEY_ID = /^[0-9a-f]{16}$/;

const lineOf = (fields: object) =>
  Object.entries(fields)
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join('  ');

const change =
  (changesOf: (ids: string[], options: Options) => AccountChanges): Command =>
  async ({ accounts }, ids, options) => {
    const id = idOf(ids[0]);
    const changes = changesOf(ids, options);
    check({ ...(await accounts.need(id)), ...changes });
    const account = await accounts.update(id, changes);
    return { json: account, text: lineOf(account) };
  };

const needAudio = (options: Options): AccountChanges => {
  const changes = audioOf(options);
  if (Object.keys(changes).length > 0) return changes;
  throw new PartylineError('bad_request', 'set-audio needs --default-audio or --pinned-audio.');
};

const audioOf = (options: Options): AccountChanges => {
  const { 'default-audio': defaultAudio, 'pinned-audio': pinnedAudio } = options;
  return {
    ...(defaultAudio === undefined ? {} : { default_audio: defaultAudio }),
    ...(pinnedAudio === undefined ? {} : { pinned_audio: pinnedAudio }),
  };
};

const COMMANDS: Record<string, Command> = {
  create: async ({ accounts }, _ids, options) => {
    const { name, email, plan = 'free', 'webhook-url': url } = options;
    if (name === undefined || email === undefined) {
      throw new PartylineError('bad_request', 'create needs --name NAME and --email EMAIL.');
    }
    const webhook = url === undefined ? {} : { webhook_url: url };
    const given = { name, email, plan, ...audioOf(options), ...webhook };
    check({ ...given, id: 0, status: 'active' });
    const created = await accounts.create(given as Parameters<Accounts['create']>[0]);
    const { id, webhook_secret: secret } = created;
    const { apiKey } = await accounts.addKey(id);
    const json = { id, api_key: apiKey, ...(secret ? { webhook_secret: secret } : {}) };
    return { json, text: `account ${id}, key ${apiKey}${secret ? `, secret ${secret}` : ''}` };
  },
  list: async ({ accounts }) => {
    const all = await accounts.list();
    return { json: all, text: all.map(lineOf).join('\n') };
  },
  show: async ({ accounts }, [id]) => {
    const account = await accounts.need(idOf(id));
    const keys = await accounts.listKeys(account.id);
    const text = [lineOf(account), ...keys.map((key) => `key ${lineOf(key)}`)].join('\n');
    return { json: { ...account, keys }, text };
  },
  'set-plan': change(([, plan]) => ({ plan: plan as 'free' })),
  'set-audio': change((_ids, options) => needAudio(options)),
  'set-webhook': change(([, url]) => ({ webhook_url: url ?? needUrl() })),
  suspend: change(() => ({ status: 'suspended' })),
  activate: change(() => ({ status: 'active' })),
  close: change(() => ({ status: 'closed' })),
  'key-add': async ({ accounts }, [id]) => {
    const key = await accounts.addKey(idOf(id));
    return { json: { key_id: key.id, api_key: key.apiKey }, text: `key ${key.id}: ${key.apiKey}` };
  },
  'key-revoke': async ({ accounts }, [id, keyId]) => {
    if (!keyId || !KEY_ID.test(keyId)) {
      const what = keyId ? `"${keyId}" is not a key id` : 'The key id is missing';
      throw new PartylineError(
        'bad_request',
        `${what}: give its 16 hex digits, which "show" shows.`,
      );
    }
    await accounts.revokeKey(idOf(id), keyId);
    return { json: { revoked: keyId }, text: `key ${keyId} is revoked` };
  },
  'rotate-token-key': async ({ tokens }, _ids, { now: isWithdrawal }) => {
    await tokens.rotateKey(isWithdrawal);
    const ended = isWithdrawal ? '; all tokens before, and their connections, have ended' : '';
    return { json: {}, text: `tokens are signed with a new key${ended}` };
  },
  usage: async ({ accounts, usage }, [id], { from, to, granularity }) => {
    const given = { from, to, granularity };
    const asked = Object.fromEntries(
      Object.entries(given).filter(([, value]) => value !== undefined),
    );
    if (!queryValidator.Check(asked)) refuse(queryValidator.Errors(asked));
    const { id: accountId } = await accounts.need(idOf(id));
    const report = await collectReport(reportUsage(usage, accountId, asked, Date.now()));
    const text = [...report.records.map(lineOf), `total: ${report.total_seconds} s`].join('\n');
    return { json: report, text };
  },
};

/** How many arguments a command takes beside its options, if not one. */
const ARGUMENTS: Record<string, number> = {
  create: 0,
  list: 0,
  'rotate-token-key': 0,
  'set-plan': 2,
  'set-webhook': 2,
  'key-revoke': 2,
};

function check(account: unknown): void {
  if (!accountValidator.Check(account)) refuse(accountValidator.Errors(account));
}

function refuse(errors: TLocalizedValidationError[]): never {
  throw new PartylineError('bad_request', `${describeFaults(errors)}.`);
}

async function run(): Promise<void> {
  const { positionals, values } = parseArgs({
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
      now: { type: 'boolean', default: false },
    },
  });
  const [name = '', ...ids] = positionals;
  const { json: isJson, help: isHelp, ...options } = values;
  if (isHelp) {
    process.stdout.write(USAGE);
    return;
  }
  const command = COMMANDS[name];
  if (!command) {
    const unknown = `There is no command "${name}": "npm run accounts -- --help" lists all there are.`;
    throw new PartylineError('bad_request', name === '' ? USAGE : unknown);
  }
  const tooMany = ids.slice(ARGUMENTS[name] ?? 1);
  if (tooMany.length > 0) {
    throw new PartylineError('bad_request', `${name} does not take "${tooMany.join(' ')}".`);
  }
  const { json, text } = await withRedis((redis) =>
    command(
      {
        accounts: new Accounts(redis),
        usage: new UsageReader(redis),
        tokens: new Tokens(redis, { wallMs: Date.now }),
      },
      ids,
      options,
    ),
  );
  process.stdout.write(`${isJson ? JSON.stringify(json) : text}\n`);
}

const onLoading = (percent: number) => {
  process.stderr.write(`Redis is loading its data: ${Math.round(percent)} %\n`);
};

/** The gateway's own Redis is started for as long as this takes, if no gateway runs. */
async function withRedis<T>(work: (redis: Redis) => Promise<T>): Promise<T> {
  await using opened = new AsyncDisposableStack();
  const settings = readSettings(process.env);
  const timings = readTimings(process.env).redis;
  const { log } = Fastify({ logger: { level: 'silent' } });
  await openCommandRedis({ settings, timings, opened, log });
  const redis = await Redis.connect(redisAddressOf(settings), log, timings, { onLoading });
  opened.adopt(redis, (part) => part.close());
  return await work(redis);
}

// Who reads what is written may have heard enough (`| head`).
process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
  if (fault.code !== 'EPIPE') throw fault;
});

/** A mistake in the command itself; anything else is a fault of the system. */
const isMistake = (fault: unknown) =>
  fault instanceof TypeError ||
  (fault instanceof PartylineError && ['bad_request', 'not_found'].includes(fault.code));

process.umask(OWNER_ONLY_UMASK);
run().catch((fault: unknown) => {
  process.stderr.write(`${isMistake(fault) ? (fault as Error).message : whyNotStarted(fault)}\n`);
  process.exitCode = isMistake(fault) ? 2 : 1;
});
