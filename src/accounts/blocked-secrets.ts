import { createHash } from 'node:crypto';

/** Maximum number of remembered secrets: an account can make any number of tokens. */
const MAX_SECRETS = 1000;

/** Keys, tokens and invitations whose account is over a limit for a while: they are refused without asking Redis. Pure. */
export class BlockedSecrets {
  /** Time at which the block ends, by the digest of the secret. */
  readonly #untilMs = new Map<string, number>();

  /** Returns the time until a secret is no longer blocked, ms; 0 if it is not. */
  leftMs(secret: string, nowMs: number): number {
    if (this.#untilMs.size === 0) return 0;
    return Math.max(0, (this.#untilMs.get(digestOf(secret)) ?? 0) - nowMs);
  }

  /** Blocks a secret, unless there are too many. */
  block(secret: string, untilMs: number, nowMs: number): void {
    if (this.#untilMs.size >= MAX_SECRETS) this.#forgetPast(nowMs);
    if (this.#untilMs.size < MAX_SECRETS) this.#untilMs.set(digestOf(secret), untilMs);
  }

  #forgetPast(nowMs: number): void {
    for (const [digest, untilMs] of this.#untilMs) {
      if (untilMs <= nowMs) this.#untilMs.delete(digest);
    }
  }
}

const digestOf = (secret: string) => createHash('sha256').update(secret).digest('base64');
