import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import type { AccountChanges, Accounts } from '../accounts/accounts.ts';
import { createWithKey } from '../accounts/create-with-key.ts';
import type { SigningKeys } from '../accounts/signing-keys.ts';
import { StoredAccountSchema } from '../accounts/stored-account.ts';
import { PartylineError } from '../protocol/errors.ts';
import { describeFaults } from '../protocol/schema-faults.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import { jsonOfReport } from '../usage/report-json.ts';
import { type OpenReport, reportUsage, secondsIn, UsageQuerySchema } from '../usage/report.ts';
import type { UsageReader } from '../usage/usage-reader.ts';

/** The commands of `npm run accounts`: an operator's changes to accounts, made directly in Redis. */

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
> & { now?: boolean };
/** Result of a command, as JSON and as text; a large one is printed in parts, as it is read. */
type Result =
  { json: unknown; text: string } | { parts: (isJson: boolean) => AsyncIterable<string> };
type Parts = {
  accounts: Accounts;
  usage: UsageReader;
  signingKeys: SigningKeys;
  /** Redis's clock, because that of the machine on which a command runs may be wrong. */
  clock: Pick<RedisClock, 'wallMs'>;
  /** Asks the person at the terminal; undefined where there is none, as in scripts. */
  ask: Ask | undefined;
};

/** Function that asks a person a question and returns the answer. */
export type Ask = (question: string) => Promise<string>;
type Command = (parts: Parts, ids: string[], options: Options) => Promise<Result>;

const accountValidator = Compile(StoredAccountSchema);
const queryValidator = Compile(UsageQuerySchema);

const idOf = (text: string | undefined): number => {
  if (text && /^[1-9]\d*$/.test(text)) return Number(text);
  const what = text ? `"${text}" is not an account id` : 'Missing account id';
  throw new PartylineError('bad_request', `${what}. Use a number that "list" shows.`);
};

const requireUrl = (): never => {
  throw new PartylineError('bad_request', 'Missing URL. Use "" to remove the webhook.');
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
    check({ ...(await accounts.getOrThrow(id)), ...changes });
    const account = await accounts.update(id, changes);
    return { json: account, text: lineOf(account) };
  };

const requireAudio = (options: Options): AccountChanges => {
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

const closeAccount = change(() => ({ status: 'closed' }));

export const COMMANDS: Record<string, Command> = {
  create: async ({ accounts }, _ids, options) => {
    const { name, email, plan = 'free', 'webhook-url': url } = options;
    if (name === undefined || email === undefined) {
      throw new PartylineError('bad_request', 'create needs --name NAME and --email EMAIL.');
    }
    const webhook = url === undefined ? {} : { webhook_url: url };
    const given = { name, email, plan, ...audioOf(options), ...webhook };
    check({ ...given, id: 0, status: 'active' });
    const { account, key } = await createWithKey(
      accounts,
      given as Parameters<Accounts['create']>[0],
    );
    const { id, webhook_secret: secret } = account;
    const { apiKey } = key;
    const json = { id, api_key: apiKey, ...(secret ? { webhook_secret: secret } : {}) };
    return { json, text: `account ${id}, key ${apiKey}${secret ? `, secret ${secret}` : ''}` };
  },
  list: async ({ accounts }) => {
    const all = await accounts.list();
    return { json: all, text: all.map(lineOf).join('\n') };
  },
  show: async ({ accounts }, [id]) => {
    const account = await accounts.getOrThrow(idOf(id));
    const keys = await accounts.listKeys(account.id);
    const text = [lineOf(account), ...keys.map((key) => `key ${lineOf(key)}`)].join('\n');
    return { json: { ...account, keys }, text };
  },
  'set-plan': change(([, plan]) => ({ plan: plan as 'free' })),
  'set-audio': change((_ids, options) => requireAudio(options)),
  'set-webhook': change(([, url]) => ({ webhook_url: url ?? requireUrl() })),
  suspend: change(() => ({ status: 'suspended' })),
  activate: change(() => ({ status: 'active' })),
  close: async (parts, ids, options) => {
    const { id, name } = await parts.accounts.getOrThrow(idOf(ids[0]));
    const question = `Account ${id} is "${name}". Closed accounts stay closed. Type its number to close it: `;
    if (parts.ask && (await parts.ask(question)).trim() !== String(id)) {
      throw new PartylineError('bad_request', `Account ${id} was not closed.`);
    }
    return closeAccount(parts, ids, options);
  },
  'key-add': async ({ accounts }, [id]) => {
    const key = await accounts.addKey(idOf(id));
    return { json: { key_id: key.id, api_key: key.apiKey }, text: `key ${key.id}: ${key.apiKey}` };
  },
  'key-revoke': async ({ accounts }, [id, keyId]) => {
    if (!keyId || !KEY_ID.test(keyId)) {
      const what = keyId ? `"${keyId}" is not a key id` : 'Missing key id';
      throw new PartylineError('bad_request', `${what}. Use the 16 hex digits that "show" shows.`);
    }
    await accounts.revokeKey(idOf(id), keyId);
    return { json: { revoked: keyId }, text: `key ${keyId} is revoked` };
  },
  'rotate-token-key': async ({ signingKeys }, _ids, { now: isWithdrawal = false }) => {
    await signingKeys.rotate(isWithdrawal);
    const ended = isWithdrawal
      ? '; all earlier tokens, their connections and invitations have ended'
      : '';
    return { json: {}, text: `tokens are signed with a new key${ended}` };
  },
  usage: async ({ accounts, usage, clock }, [id], { from, to, granularity }) => {
    const given = { from, to, granularity };
    const asked = Object.fromEntries(
      Object.entries(given).filter(([, value]) => value !== undefined),
    );
    if (!queryValidator.Check(asked)) refuse(queryValidator.Errors(asked));
    const { id: accountId } = await accounts.getOrThrow(idOf(id));
    const report = reportUsage(usage, accountId, asked, clock.wallMs());
    return { parts: (isJson) => (isJson ? jsonLineOf(report) : textOf(report)) };
  },
};

/** Maximum number of arguments of a command, beside its options; 1 if it is not listed. */
export const MAX_ARGUMENTS: Record<string, number> = {
  create: 0,
  list: 0,
  'rotate-token-key': 0,
  'set-plan': 2,
  'set-webhook': 2,
  'key-revoke': 2,
};

/** Options of a command, beside `--json` and `--help`; none if it is not listed. */
export const OPTIONS: Record<string, readonly string[]> = {
  create: ['name', 'email', 'plan', 'default-audio', 'pinned-audio', 'webhook-url'],
  'set-audio': ['default-audio', 'pinned-audio'],
  'rotate-token-key': ['now'],
  usage: ['from', 'to', 'granularity'],
};

async function* jsonLineOf(report: OpenReport): AsyncGenerator<string> {
  const first = await report.records.next();
  yield* jsonOfReport(report, first.done ? [] : first.value);
  yield '\n';
}

async function* textOf({ records }: OpenReport): AsyncGenerator<string> {
  let totalS = 0;
  for await (const some of records) {
    totalS += secondsIn(some);
    yield some.map((record) => `${lineOf(record)}\n`).join('');
  }
  yield `total: ${Math.round(totalS * 1000) / 1000} s\n`;
}

function check(account: unknown): void {
  if (!accountValidator.Check(account)) refuse(accountValidator.Errors(account));
}

function refuse(errors: TLocalizedValidationError[]): never {
  throw new PartylineError('bad_request', `${describeFaults(errors)}.`);
}
