import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals what nodes tell each other through Redis: only who has the cluster's key can read it or have written it, and it
 * is good only in the place for which it was sealed.
 */
export class Seal {
  readonly #key: Buffer;

  constructor(clusterKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', clusterKey, '', 'partyline cluster', KEY_BYTES));
  }

  /** @param place where it will stand: a key or a channel */
  close(text: string, place: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, iv).setAAD(Buffer.from(place));
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
  }

  /** @throws {Error} if it was not sealed with this key for this place, or has been changed */
  open(sealed: string, place: string): string {
    const bytes = Buffer.from(sealed, 'base64url');
    const iv = bytes.subarray(0, IV_BYTES);
    const tag = bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES);
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, iv, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(place))
        .setAuthTag(tag);
      const text = decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES));
      return Buffer.concat([text, decipher.final()]).toString();
    } catch (cause) {
      throw new Error('not sealed by a node of this cluster for this place', { cause });
    }
  }
}
