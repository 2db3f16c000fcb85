import { createHmac } from 'node:crypto';
import type { IceServer } from '../protocol/media-types.ts';

/**
 * Validity of credentials, in seconds. A browser that restarts ICE gets others, but not every client can use them: with
 * mediasoup-client in Firefox, and over WHIP and WHEP, it must join again if the first ones have expired.
 */
const GOOD_FOR_S = 24 * 3600;

/**
 * TURN servers for browsers without a direct path to the gateway, with credentials that are valid for a day and derived from
 * a secret that the servers share (the "TURN REST API", coturn's `use-auth-secret`). Pure.
 */
export class IceServers {
  readonly #urls: string[];
  readonly #secret: string;
  readonly #wallMs: () => number;

  /**
   * @param urls URLs such as `turn:host:port?transport=…`; if empty, browsers get no servers
   * @param wallMs clock from which the day of the credentials counts, ms since 1970
   */
  constructor(urls: string[], secret: string, wallMs: () => number) {
    this.#wallMs = wallMs;
    this.#urls = urls;
    this.#secret = secret;
  }

  /** Returns the servers for one browser, with credentials that are valid from now on. */
  for(peer: string): IceServer[] {
    if (this.#urls.length === 0) return [];
    const username = `${Math.floor(this.#wallMs() / 1000) + GOOD_FOR_S}:${peer}`;
    const credential = createHmac('sha1', this.#secret).update(username).digest('base64');
    return [{ urls: this.#urls, username, credential }];
  }
}
