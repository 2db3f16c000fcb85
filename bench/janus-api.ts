import { once } from 'node:events';
import { WebSocket } from 'ws';

type Request = { janus: string; plugin?: string; handle_id?: number; body?: object };
type Answer = {
  janus: string;
  transaction?: string;
  data?: { id: number };
  plugindata?: { data: PluginAnswer };
};
type PluginAnswer = { error?: string; rtp?: { port: number } };
type Waiting = { resolve: (answer: Answer) => void; reject: (fault: Error) => void };

/** One session of Janus's WebSocket API. */
export class JanusApi {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, Waiting>();
  #sessionId: number | undefined;
  #nextTransaction = 1;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => this.#receive(JSON.parse(data.toString()) as Answer));
    socket.on('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('Janus hung up'));
    });
  }

  /** @throws {Error} if no server listens yet */
  static async open(port: number): Promise<JanusApi> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, 'janus-protocol');
    await once(socket, 'open');
    const api = new JanusApi(socket);
    api.#sessionId = (await api.#request({ janus: 'create' })).data?.id;
    return api;
  }

  /** @returns the handle of another participant, or of the client that opens rooms */
  async attach(): Promise<number> {
    const { data } = await this.#request({ janus: 'attach', plugin: 'janus.plugin.audiobridge' });
    if (!data) throw new Error('Janus gave no handle');
    return data.id;
  }

  /** @throws {Error} if the plugin refuses */
  async ask(handle: number, body: object): Promise<PluginAnswer> {
    const { plugindata } = await this.#request({ janus: 'message', handle_id: handle, body });
    if (!plugindata || plugindata.data.error !== undefined) {
      throw new Error(`Janus refused: ${plugindata?.data.error}`);
    }
    return plugindata.data;
  }

  close(): void {
    this.#socket.terminate();
  }

  #request(request: Request): Promise<Answer> {
    const transaction = String(this.#nextTransaction);
    this.#nextTransaction += 1;
    return new Promise((resolve, reject) => {
      this.#waiting.set(transaction, { resolve, reject });
      const session = this.#sessionId === undefined ? {} : { session_id: this.#sessionId };
      this.#socket.send(JSON.stringify({ ...request, ...session, transaction }));
    });
  }

  /** A request that is answered later is acknowledged first; events without a request have no transaction. */
  #receive(answer: Answer): void {
    const { janus, transaction } = answer;
    const waiting = transaction === undefined ? undefined : this.#waiting.get(transaction);
    if (!waiting || janus === 'ack') return;
    this.#waiting.delete(transaction!);
    if (janus === 'error') waiting.reject(new Error(`Janus refused: ${JSON.stringify(answer)}`));
    else waiting.resolve(answer);
  }
}
