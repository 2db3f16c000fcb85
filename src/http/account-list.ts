import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { Account, Accounts } from '../accounts/accounts.ts';

/**
 * Answers with all accounts: JSON that is written as it is read, so that tens of thousands of accounts do not delay audio.
 * @throws {PartylineError} `overloaded`
 */
export async function sendAccounts(reply: FastifyReply, accounts: Accounts): Promise<FastifyReply> {
  const parts = accounts.listInParts();
  // Faults of Redis get an error response until the first byte has been sent.
  const first = await parts.next();
  const stream = Readable.from(jsonOf(first.done ? [] : first.value, parts));
  return reply.type('application/json; charset=utf-8').send(stream);
}

async function* jsonOf(first: Account[], others: AsyncIterable<Account[]>): AsyncGenerator<string> {
  let text = `{"accounts":[${linesOf(first)}`;
  let isEmpty = first.length === 0;
  for await (const part of others) {
    yield text;
    text = (isEmpty || part.length === 0 ? '' : ',') + linesOf(part);
    isEmpty &&= part.length === 0;
  }
  yield `${text}]}`;
}

const linesOf = (accounts: Account[]) => JSON.stringify(accounts).slice(1, -1);
