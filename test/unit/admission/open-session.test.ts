import { expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/accounts.ts';
import type { HandedOverClient } from '../../../src/admission/handed-over-client.ts';
import {
  type NewClient,
  openSession,
  takeOverSession,
} from '../../../src/admission/open-session.ts';
import { readQuery } from '../../../src/admission/query.ts';
import type { SessionOpeningParts } from '../../../src/admission/session-opening.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { silentLog } from '../../support/gateway.ts';

/** The admission of a client on a node, and what it did, in order; it is at the summary until that is read. */
function openAdmission() {
  const done: string[] = [];
  const summary = Promise.withResolvers<number>();
  const node = { isDraining: false, hasNewer: false };
  const note = (what: string) => () => {
    done.push(what);
    return Promise.resolve();
  };
  const admission = { lastPlace: undefined, isResumed: false, settings: '', order: 1 };
  const parts = {
    leases: {
      admit: () => Promise.resolve(admission),
      count: () => Promise.resolve(1),
      withdraw: note('withdrawn'),
    },
    takeover: {
      arrived: note('announced'),
      checkNewest: () => {
        if (node.hasNewer) throw new PartylineError('replaced', 'newer');
      },
    },
    drain: {
      check: () => {
        if (node.isDraining) throw new PartylineError('overloaded', 'draining');
      },
    },
    usage: { readMonthMs: () => summary.promise },
    clock: { wallMs: Date.now },
    requestLimits: { turns: { run: note('started') } },
  } as unknown as SessionOpeningParts;
  const socket = { readyState: 1, OPEN: 1 };
  const account = { id: 1, plan: 'pro' } as Account;
  const client = {
    socket,
    query: readQuery('/ws?room=a&peer=ada&audio=opus'),
    credentials: { account, keyId: 'k', grant: undefined },
    log: silentLog,
    room: 'a',
  } as unknown as NewClient;
  return { parts, client, socket, node, summary, done };
}

test('a client is announced to the other nodes before its session starts', async () => {
  const { parts, client, summary, done } = openAdmission();
  summary.resolve(0);
  await openSession(client, parts);
  expect(done).toEqual(['announced', 'started']);
});

test('a client that is refused is not announced: its connection to another node goes on', async () => {
  const { parts, client, node, summary, done } = openAdmission();
  const opened = openSession(client, parts);
  node.isDraining = true;
  summary.resolve(0);
  await expect(opened).rejects.toThrow('draining');
  expect(done).toEqual(['withdrawn']);
});

test('a client that has made a newer connection meanwhile is not announced', async () => {
  const { parts, client, node, summary, done } = openAdmission();
  const opened = openSession(client, parts);
  node.hasNewer = true;
  summary.resolve(0);
  await expect(opened).rejects.toThrow('newer');
  expect(done).toEqual(['withdrawn']);
});

test('a client whose minutes cannot be read is not announced', async () => {
  const { parts, client, summary, done } = openAdmission();
  const opened = openSession(client, parts);
  summary.reject(new Error('too slow'));
  await expect(opened).rejects.toThrow('too slow');
  expect(done).toEqual(['withdrawn']);
});

test('a client whose connection is lost during its admission is not announced', async () => {
  const { parts, client, socket, summary, done } = openAdmission();
  const opened = openSession(client, parts);
  socket.readyState = 3;
  summary.resolve(0);
  await opened;
  expect(done).toEqual(['withdrawn']);
});

test('a client that is handed over while it has made a newer connection elsewhere is not taken over', async () => {
  const { parts, client, node, done } = openAdmission();
  node.hasNewer = true;
  const moving = { sessionId: 's', connectionId: 'c' } as HandedOverClient;
  await expect(takeOverSession(client, moving, parts)).rejects.toThrow('newer');
  expect(done).toEqual(['withdrawn']);
});
