import { createHash } from 'node:crypto';

/** Maximum number of blocked secrets; it is limited because an account can make any number of tokens. */
const MAX_SECRETS = 1000;

/** Keys, tokens and invitations of accounts that are over a limit. While they are blocked, they are refused without a command to Redis. Pure. */
export class BlockedSecrets {
  /** Times at which blocks end, ms of the caller's clock, by the digest of the secret. */
  readonly #untilMs = new Map<string, number>();

  /** Returns the time until a secret is no longer blocked, ms; 0 if it is not. */
  leftMs(secret: string, nowMs: number): number {
    if (this.#untilMs.size === 0) return 0;
    return Math.max(0, (this.#untilMs.get(digestOf(secret)) ?? 0) - nowMs);
  }

  /** Blocks a secret until a time, ms, unless {@link MAX_SECRETS} are blocked. */
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
