import { randomUUID } from 'node:crypto';
import { open, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PartylineError } from '../protocol/errors.ts';
import { giveToOwner } from '../store/data-dir.ts';
import { LAST_ACCOUNT_ID, LAST_ACCOUNT_ID_GIVEN } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

/** Legacy clients read ids as 32-bit integers. */
const MAX_ID = 2 ** 31 - 1;
/** Number of ids, beyond one per second, that may have been given since a restored backup was made. */
const MARGIN = 1000;

const FILE = 'last-account-id';

/** Ids of accounts: whole numbers below 2^31. No id is given twice, even after an older backup of Redis is restored. */
export class AccountIds {
  readonly #redis: Redis;
  readonly #accountPrefix: string;

  /** @param accountPrefix prefix of the key of each account */
  constructor(redis: Redis, accountPrefix: string) {
    this.#redis = redis;
    this.#accountPrefix = accountPrefix;
  }

  /** @throws {PartylineError} `overloaded`, or `internal_error` if there are none left */
  async next(): Promise<number> {
    const { ownDataDir } = this.#redis;
    const file = ownDataDir === undefined ? undefined : join(ownDataDir, FILE);
    const noted = file === undefined ? NOTHING : await readNote(file);
    const id = await this.#redis.run((client) =>
      client.nextAccountId({
        keys: [LAST_ACCOUNT_ID, LAST_ACCOUNT_ID_GIVEN],
        arguments: [String(noted.id), noted.identity, this.#accountPrefix, String(MARGIN)],
      }),
    );
    if (typeof id !== 'number' || id > MAX_ID) {
      throw new PartylineError('internal_error', 'There are no account ids left.');
    }
    if (file !== undefined) {
      const identity = await writeNote(file, id);
      await this.#redis.run((client) => client.hSet(LAST_ACCOUNT_ID_GIVEN, 'file', identity));
    }
    return id;
  }
}

type Note = { id: number; identity: string };
const NOTHING: Note = { id: 0, identity: '' };

/** A file that was copied or unpacked since has another identity. */
async function identityOf(file: string): Promise<string> {
  const { ino, ctimeNs } = await stat(file, { bigint: true });
  return `${ino}:${ctimeNs}`;
}

async function readNote(file: string): Promise<Note> {
  try {
    return { id: Number(await readFile(file, 'utf8')), identity: await identityOf(file) };
  } catch (fault) {
    if (fault instanceof Error && 'code' in fault && fault.code === 'ENOENT') return NOTHING;
    throw fault;
  }
}

/** Writes the file to disk before it replaces the previous one. @returns its identity */
async function writeNote(file: string, id: number): Promise<string> {
  const draft = `${file}.${randomUUID()}`;
  const handle = await open(draft, 'w', 0o600);
  try {
    await handle.writeFile(String(id));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await giveToOwner(draft);
  await rename(draft, file);
  return identityOf(file);
}
