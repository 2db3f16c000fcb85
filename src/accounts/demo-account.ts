import { readFile, writeFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Settings } from '../../config/settings.ts';
import { PartylineError } from '../protocol/errors.ts';
import { giveToOwner, openDataDir } from '../store/data-dir.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';
import { type Account, Accounts } from './accounts.ts';

export type DemoAccount = {
  account: Account;
  apiKey: string;
  /** The key was made at this start; it is in {@link keyFile} from now on. */
  isNew: boolean;
  keyFile: string;
};

type DemoSettings = Pick<
  Settings,
  'DATA_DIR' | 'DEMO_ACCOUNT' | 'HOST' | 'TRUST_PROXY' | 'TLS_CERT'
>;

/** The id of the demo account: all gateways that share a Redis have the same. */
const DEMO_ID = `${KEY_PREFIX}demo_account`;
/** Held while one of them makes it. */
const TURN = `${KEY_PREFIX}demo_account:turn`;
/** Longest time for which a gateway that was killed meanwhile keeps the others waiting. */
const TURN_MS = 5000;
const POLL_MS = 20;
const EMAIL = 'demo@localhost';
const FIRST_ID = 1;

/**
 * The demo account on the pro plan, made when there is none. Redis holds only the hash of its key; the key itself stays in a
 * file in `DATA_DIR` that only its owner can read. Where that file is missing, or of another Redis, the account gets another
 * key. Warns of an active demo account on a gateway that others can reach.
 * @returns undefined if it is not wanted, or the operator has closed it
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
    log.warn({ account: account.id }, `demo account is active on a node others reach: ${advice}`);
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
  const keyFile = join(dataDir, 'demo-key');
  const known = await readIfThere(keyFile);
  const credentials = known === undefined ? undefined : await accounts.findByKey(known);
  const account = credentials?.account ?? (await findDemo(redis, accounts));
  if (account) await redis.run((client) => client.set(DEMO_ID, account.id, { condition: 'NX' }));
  if (account?.status === 'closed') return undefined;
  if (known !== undefined && credentials) {
    return { account: credentials.account, apiKey: known, isNew: false, keyFile };
  }
  // Before there is a key that could not be kept.
  await openDataDir(dataDir);
  const owner = account ?? (await create(redis, accounts));
  const { apiKey } = await accounts.addKey(owner.id);
  await writeFile(keyFile, apiKey, { mode: 0o600 });
  await giveToOwner(keyFile);
  return { account: owner, apiKey, isNew: true, keyFile };
}

async function create(redis: Redis, accounts: Accounts): Promise<Account> {
  const created = await accounts.create({ name: 'Demo', email: EMAIL, plan: 'pro' });
  await redis.run((client) => client.set(DEMO_ID, created.id));
  return created;
}

/** The demo account that Redis knows of. Earlier versions noted no id: theirs is nearly always the first account. */
async function findDemo(redis: Redis, accounts: Accounts): Promise<Account | undefined> {
  const id = await redis.run((client) => client.get(DEMO_ID));
  const account = await accounts.find(id === null ? FIRST_ID : Number(id));
  return account?.email === EMAIL ? account : undefined;
}

/** Gateways that start at the same moment would each make an account. */
async function inTurn<T>(redis: Redis, work: () => Promise<T>): Promise<T> {
  const options = { condition: 'NX', expiration: { type: 'PX', value: TURN_MS } } as const;
  const deadlineMs = performance.now() + 2 * TURN_MS;
  while ((await redis.run((client) => client.set(TURN, '', options))) === null) {
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
    await redis.run((client) => client.del(TURN));
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
