import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { giveToOwner, openDataDir } from '../store/data-dir.ts';
import type { Account, Accounts } from './accounts.ts';

export type DemoAccount = { account: Account; apiKey: string };

/**
 * The demo account on the pro plan, made when there is none. Redis holds only the hash of its key; the key itself stays
 * in a file in `dataDir` that only its owner can read, so that every start can print it.
 */
export async function openDemoAccount(accounts: Accounts, dataDir: string): Promise<DemoAccount> {
  const file = join(dataDir, 'demo-key');
  const known = await readIfThere(file);
  const credentials = known === undefined ? undefined : await accounts.findByKey(known);
  if (known !== undefined && credentials) return { account: credentials.account, apiKey: known };
  // Before there is an account whose key could not be kept.
  await openDataDir(dataDir);
  const created = await accounts.create({ name: 'Demo', email: 'demo@localhost', plan: 'pro' });
  const { apiKey } = await accounts.addKey(created.id);
  await writeFile(file, apiKey, { mode: 0o600 });
  await giveToOwner(file);
  return { account: created, apiKey };
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (fault) {
    if (fault instanceof Error && 'code' in fault && fault.code === 'ENOENT') return undefined;
    throw fault;
  }
}
