import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Encryption of messages between nodes through Redis: only holders of the cluster's key can read or write them, and each is
 * valid only in the context for which it was sealed.
 */
export class Sealer {
  readonly #key: Buffer;

  constructor(clusterKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', clusterKey, '', 'partyline cluster', KEY_BYTES));
  }

  /** Encrypts and authenticates a text. @param context key or channel of Redis under which it is written */
  seal(text: string, context: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, iv).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
  }

  /** Decrypts a text. @throws {Error} if it was not sealed with this key for this context, or has been changed since */
  unseal(sealed: string, context: string): string {
    const bytes = Buffer.from(sealed, 'base64url');
    const iv = bytes.subarray(0, IV_BYTES);
    const tag = bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES);
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, iv, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(context))
        .setAuthTag(tag);
      const text = decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES));
      return Buffer.concat([text, decipher.final()]).toString();
    } catch (cause) {
      throw new Error('not sealed by a node of this cluster for this context', { cause });
    }
  }
}
