import { readFileSync } from 'node:fs';
import { type CommandParser, defineScript } from 'redis';

/**
 * Scripts that run atomically within Redis. The head of each `.lua` file describes its effect, its keys and arguments, and
 * its reply; `-- @include name` stands for the text of `scripts/includes/name.lua`.
 */

/** Keys and arguments of a script. */
type ScriptInput = { keys: string[]; arguments?: string[] };

const INCLUDE = /^-- @include (\S+)$/gm;

function readScript(name: string): string {
  const text = readFileSync(new URL(`scripts/${name}.lua`, import.meta.url), 'utf8');
  return text.replaceAll(INCLUDE, (_line, included: string) => readScript(`includes/${included}`));
}

/** Defines a command that runs a script. Redis is sent the hash of the script, and its text only if Redis does not have it. */
const script = (name: string) =>
  defineScript({
    SCRIPT: readScript(name),
    parseCommand(parser: CommandParser, input: ScriptInput) {
      parser.pushKeysLength(input.keys);
      parser.pushVariadic(input.arguments ?? []);
    },
    transformReply: (reply: unknown) => reply,
  });

/** Commands that run scripts, by the names that they have as methods of a client. */
export const SCRIPTS = {
  addFirstSigningKey: script('accounts/add-first-signing-key'),
  endDemoTurn: script('accounts/end-turn'),
  nextAccountId: script('accounts/next-id'),
  noteKeyUsed: script('accounts/note-key-used'),
  rotateSigningKey: script('accounts/rotate-signing-key'),
  writeAccount: script('accounts/write'),

  admitLease: script('leases/admit'),
  countLeases: script('leases/count'),
  letLeasesExpire: script('leases/let-expire'),
  noteLeasePlace: script('leases/note-place'),
  noteLeaseSettings: script('leases/note-settings'),
  releaseLease: script('leases/release'),
  renewLeases: script('leases/renew'),

  beatNode: script('nodes/beat'),
  claimFormat: script('nodes/claim-format'),
  departNode: script('nodes/depart'),
  noteKeyFingerprint: script('nodes/note-fingerprint'),
  reapNode: script('nodes/reap'),
  removeNode: script('nodes/remove'),

  eraseRoomState: script('rooms/erase-state'),
  writeRoomState: script('rooms/write-state'),

  beatUsageWorker: script('usage/beat-worker'),
  closeUsageMinute: script('usage/close-minute'),
  readOpenUsage: script('usage/read-open-minute'),
  readUsageWorkerOffsets: script('usage/read-worker-offsets'),
  writeUsage: script('usage/write'),

  adoptWebhookOutbox: script('webhooks/adopt-outbox'),
  claimWebhookAccount: script('webhooks/claim-account'),
  clearWebhookOutbox: script('webhooks/clear-outbox'),
  countWebhookOutbox: script('webhooks/count-outbox'),
  departWebhookNode: script('webhooks/depart-node'),
  readWebhookHeads: script('webhooks/read-heads'),
  reapWebhookNode: script('webhooks/reap-node'),
  releaseWebhookAccount: script('webhooks/release-account'),
  removeWebhookEvent: script('webhooks/remove-event'),
  retireWebhookWorker: script('webhooks/retire-worker'),
  shareWebhookAccounts: script('webhooks/share-accounts'),
  tellWebhookChanges: script('webhooks/tell'),
};
