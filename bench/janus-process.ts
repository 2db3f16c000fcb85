import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Child } from './child.ts';
import { freePort } from './free-port.ts';
import { JanusApi } from './janus-api.ts';
import { findJanusModules, JANUS_PROGRAM, writeJanusConfig } from './janus-config.ts';
import type { Place } from './client.ts';
import { cpuMs } from './process-stats.ts';

const START_TIMEOUT_MS = 10_000;
const RETRY_MS = 50;
export const JANUS_PAYLOAD_TYPE = 111;
/** Encoding like the gateway's: 48 kHz, 32 kbit/s, about the same complexity. */
const ROOM = { sampling_rate: 48_000, allow_rtp_participants: true, audiolevel_event: false };
const PARTICIPANT = { codec: 'opus', bitrate: 32_000, quality: 4, expected_loss: 0 };

/** Janus with AudioBridge, with which the gateway is compared; its participants use plain RTP. */
export class JanusProcess implements AsyncDisposable {
  readonly #child: Child;
  readonly #folder: string;
  readonly #api: JanusApi;

  private constructor(child: Child, folder: string, api: JanusApi) {
    this.#child = child;
    this.#folder = folder;
    this.#api = api;
  }

  /** @returns undefined if Janus is not installed */
  static async start(): Promise<JanusProcess | undefined> {
    const modules = findJanusModules();
    if (modules === undefined) return undefined;
    const port = await freePort();
    const folder = await writeJanusConfig(modules, port);
    const child = new Child('Janus', [JANUS_PROGRAM, '-F', folder]);
    try {
      return new JanusProcess(child, folder, await openApi(child, port));
    } catch (fault) {
      await child.stop();
      await rm(folder, { recursive: true });
      throw fault;
    }
  }

  /** Opens rooms. @param first number of the first one, counted from 0 */
  async openRooms(rooms: number, first = 0): Promise<void> {
    const handle = await this.#api.attach();
    for (let room = first + 1; room <= first + rooms; room += 1) {
      await this.#api.ask(handle, { request: 'create', room, permanent: false, ...ROOM });
    }
  }

  /**
   * Lets a participant into an open room.
   * @param port at which it takes RTP
   * @param prebuffer number of packets that Janus holds back, if not its default
   * @returns the port to which it sends RTP
   */
  async join({ room, peer }: Place, port: number, prebuffer?: number): Promise<number> {
    const { rtp } = await this.#api.ask(await this.#api.attach(), {
      request: 'join',
      room: room + 1,
      id: peer + 1,
      rtp: { ip: '127.0.0.1', port, payload_type: JANUS_PAYLOAD_TYPE },
      ...PARTICIPANT,
      ...(prebuffer === undefined ? {} : { prebuffer }),
    });
    if (!rtp) throw new Error('Janus gave no RTP port');
    return rtp.port;
  }

  cpuMs(): { main: number; mediaWorkers: number } {
    return { main: cpuMs(this.#child.pid), mediaWorkers: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#api.close();
    await this.#child.stop();
    await rm(this.#folder, { recursive: true });
  }
}

/** Janus does not report when it begins to listen. */
async function openApi(child: Child, port: number): Promise<JanusApi> {
  const deadlineMs = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      return await JanusApi.open(port);
    } catch (fault) {
      if (child.hasExited || performance.now() > deadlineMs) throw fault;
      await sleep(RETRY_MS);
    }
  }
}
