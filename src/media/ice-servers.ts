import { createHmac } from 'node:crypto';

/** A server that a browser may use to reach us; RTCIceServer of the WebRTC API. */
export type IceServer = { urls: string[]; username: string; credential: string };

/** Longer than any call: a browser needs them again when it renews its transports' ICE. */
const GOOD_FOR_S = 24 * 3600;

/**
 * TURN servers for browsers that no direct way leads here, with credentials that are good for a day, made of a secret that
 * the servers share (the "TURN REST API", as coturn's `use-auth-secret` has it). Pure.
 */
export class IceServers {
  readonly #urls: string[];
  readonly #secret: string;
  readonly #nowMs: () => number;

  /**
   * @param urls `turn:host:port?transport=…` and the like; none: browsers get no servers
   * @param nowMs ms since 1970
   */
  constructor(urls: string[], secret: string, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#urls = urls;
    this.#secret = secret;
  }

  /** For one browser, whose transports are opened now. */
  for(peer: string): IceServer[] {
    if (this.#urls.length === 0) return [];
    const username = `${Math.floor(this.#nowMs() / 1000) + GOOD_FOR_S}:${peer}`;
    const credential = createHmac('sha1', this.#secret).update(username).digest('base64');
    return [{ urls: this.#urls, username, credential }];
  }
}
