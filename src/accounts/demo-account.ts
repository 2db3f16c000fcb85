import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Settings } from '../../config/settings.ts';
import { PartylineError } from '../protocol/errors.ts';
import { demoKeyFileIn, giveToOwner, openDataDir } from '../store/data-dir.ts';
import { DEMO_ACCOUNT_ID, DEMO_ACCOUNT_KEYS, DEMO_ACCOUNT_TURN } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { type Account, Accounts, type ApiKey } from './accounts.ts';

export type DemoAccount = {
  account: Account;
  apiKey: string;
  /** True if the key was made at this start; it is in {@link keyFile} from now on. */
  isNew: boolean;
  keyFile: string;
};

type DemoSettings = Pick<
  Settings,
  'DATA_DIR' | 'DEMO_ACCOUNT' | 'HOST' | 'TRUST_PROXY' | 'TLS_CERT'
>;

/**
 * Maximum number of keys that starts have made, so that containers without a volume do not add keys indefinitely; enough for one key
 * per data folder in a cluster of usual size.
 */
const MAX_MADE_KEYS = 50;
/** Maximum time for which a gateway that was killed while creating the account keeps the others waiting, ms. */
const TURN_MS = 5000;
const POLL_MS = 20;
const EMAIL = 'demo@localhost';
const FIRST_ID = 1;

/**
 * The demo account on the pro plan, made when there is none. Redis holds only the hash of its key; the key
 * itself stays in a file in `DATA_DIR` that only its owner can read. If that file is missing, or of another
 * Redis, the account gets another key, in place of the least recently used one if starts have made {@link
 * MAX_MADE_KEYS}. Warns of an active demo account on a gateway that others can reach.
 * @returns undefined if DEMO_ACCOUNT is false, or the operator has closed the account
 */
export async function openDemoAccount(
  redis: Redis,
  settings: DemoSettings,
  log: Pick<FastifyBaseLogger, 'warn'>,
): Promise<DemoAccount | undefined> {
  const accounts = new Accounts(redis);
  const demo = settings.DEMO_ACCOUNT
    ? await inTurn(redis, () => openWanted(redis, accounts, settings.DATA_DIR))
    : undefined;
  const account = demo?.account ?? (await findDemo(redis, accounts));
  if (account?.status === 'active' && isReachable(settings)) {
    const advice = `set DEMO_ACCOUNT=false, and close it with: npm run accounts -- close ${account.id}`;
    log.warn(
      { account: account.id },
      `demo account active on a node that other machines can reach; ${advice}`,
    );
  }
  return demo;
}

/** True if a gateway with these settings can be reached from other machines. */
export function isReachable({
  HOST: host,
  TRUST_PROXY: proxies,
  TLS_CERT: certificate,
}: Pick<Settings, 'HOST' | 'TRUST_PROXY' | 'TLS_CERT'>): boolean {
  const isLoopback =
    host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
  return !isLoopback || proxies !== '' || certificate !== '';
}

async function openWanted(
  redis: Redis,
  accounts: Accounts,
  dataDir: string,
): Promise<DemoAccount | undefined> {
  const keyFile = demoKeyFileIn(dataDir);
  const known = await readIfThere(keyFile);
  const credentials = known === undefined ? undefined : await accounts.findByKey(known);
  const account = credentials?.account ?? (await findDemo(redis, accounts));
  if (account)
    await redis.run((client) => client.set(DEMO_ACCOUNT_ID, account.id, { condition: 'NX' }));
  if (account?.status === 'closed') return undefined;
  if (known !== undefined && credentials) {
    return { account: credentials.account, apiKey: known, isNew: false, keyFile };
  }
  // Checked before an account exists whose key could not be stored.
  await openDataDir(dataDir);
  const owner = account ?? (await create(redis, accounts));
  const { id, apiKey } = await accounts.addKey(owner.id, async (key) => {
    await writeFile(keyFile, key.apiKey, { mode: 0o600 });
    await giveToOwner(keyFile);
    await redis.run((client) => client.sAdd(DEMO_ACCOUNT_KEYS, key.id));
  });
  await revokeSurplusKeys(redis, accounts, owner.id, id);
  return { account: owner, apiKey, isNew: true, keyFile };
}

/** Revokes the least recently used of the keys that starts have made, beyond {@link MAX_MADE_KEYS}; never the newest. */
async function revokeSurplusKeys(
  redis: Redis,
  accounts: Accounts,
  accountId: number,
  newestId: string,
): Promise<void> {
  const ids = await redis.run((client) => client.sMembers(DEMO_ACCOUNT_KEYS));
  const older = (await accounts.listKeys(accountId))
    .filter(({ id }) => id !== newestId && ids.includes(id))
    .toSorted((one, other) => lastUseOf(one).localeCompare(lastUseOf(other)));
  const surplus = older.slice(0, Math.max(0, older.length + 1 - MAX_MADE_KEYS));
  for (const { id } of surplus) await accounts.revokeKey(accountId, id);
  const kept = new Set([newestId, ...older.slice(surplus.length).map(({ id }) => id)]);
  const gone = ids.filter((id) => !kept.has(id));
  if (gone.length > 0) await redis.run((client) => client.sRem(DEMO_ACCOUNT_KEYS, gone));
}

const lastUseOf = ({ created_at: createdAt, last_used_at: lastUsedAt }: ApiKey) =>
  lastUsedAt ?? createdAt;

async function create(redis: Redis, accounts: Accounts): Promise<Account> {
  const created = await accounts.create({ name: 'Demo', email: EMAIL, plan: 'pro' });
  await redis.run((client) => client.set(DEMO_ACCOUNT_ID, created.id));
  return created;
}

/**
 * Returns the demo account in Redis, whose name and e-mail an operator may have changed. Earlier versions stored no id: theirs
 * is nearly always the first account.
 */
async function findDemo(redis: Redis, accounts: Accounts): Promise<Account | undefined> {
  const id = await redis.run((client) => client.get(DEMO_ACCOUNT_ID));
  if (id !== null) return accounts.find(Number(id));
  const first = await accounts.find(FIRST_ID);
  return first?.email === EMAIL ? first : undefined;
}

/** Runs `work` while no other gateway does: gateways that start at the same moment would each create an account. */
async function inTurn<T>(redis: Redis, work: () => Promise<T>): Promise<T> {
  const turn = randomUUID();
  const options = { condition: 'NX', expiration: { type: 'PX', value: TURN_MS } } as const;
  const deadlineMs = performance.now() + 2 * TURN_MS;
  while ((await redis.run((client) => client.set(DEMO_ACCOUNT_TURN, turn, options))) === null) {
    if (performance.now() > deadlineMs) {
      throw new PartylineError(
        'overloaded',
        'Another gateway takes too long for the demo account.',
      );
    }
    await wait(POLL_MS);
  }
  try {
    return await work();
  } finally {
    await redis.run((client) =>
      client.endDemoTurn({ keys: [DEMO_ACCOUNT_TURN], arguments: [turn] }),
    );
  }
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (fault) {
    if (fault instanceof Error && 'code' in fault && fault.code === 'ENOENT') return undefined;
    throw fault;
  }
}
