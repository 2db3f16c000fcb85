import { Connection, type Target } from './connection.ts';
import { type Heard, type HeardFrame, joinFrames } from './ear.ts';
import type { CanaryPeer } from './peer.ts';
import { readPcm } from './voice.ts';

/** A peer over a WebSocket, which speaks and hears 16-bit PCM. */
export class WebSocketPeer implements CanaryPeer {
  readonly kind = 'websocket';
  readonly name: string;
  readonly joinMs: number;
  readonly path: string;
  readonly #connection: Connection;
  #frames: HeardFrame[] = [];
  #samples = 0;

  private constructor(name: string, joinMs: number, path: string, connection: Connection) {
    this.name = name;
    this.joinMs = joinMs;
    this.path = path;
    this.#connection = connection;
    connection.onFrame = (frame, atMs) => {
      const samples = readPcm(frame);
      this.#frames.push({ at: this.#samples, samples, atMs });
      this.#samples += samples.length;
    };
  }

  /** Joins the room. @throws {Error} naming the step that failed */
  static async join(target: Target, name: string): Promise<WebSocketPeer> {
    const startMs = performance.now();
    const audio = 'pcm_s16le;rate=48000;channels=1';
    const connection = await Connection.open(target, name, { audio });
    try {
      await connection.ask({ type: 'join', room: target.room }, 'joined');
    } catch (fault) {
      connection.close();
      throw fault;
    }
    const path = target.url.startsWith('https') ? 'wss' : 'ws';
    return new WebSocketPeer(name, performance.now() - startMs, path, connection);
  }

  set onFault(handle: (fault: Error) => void) {
    this.#connection.onFault = handle;
  }

  send(frame: Uint8Array): void {
    this.#connection.send(frame);
  }

  /** Resolves at once, because the mix is sent without a request. */
  async untilHears(): Promise<void> {}

  listen(): void {
    this.#frames = [];
    this.#samples = 0;
  }

  heard(): Promise<Heard> {
    return Promise.resolve(joinFrames(this.#frames));
  }

  close(): Promise<void> {
    this.#connection.close();
    return Promise.resolve();
  }
}
