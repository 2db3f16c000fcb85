import { WebSocket } from 'ws';
import type { TransportDescription } from '../../packages/canary/src/messages.ts';

/** Interval at which a condition that the crowd waits for is checked, ms. */
const LOOK_EVERY_MS = 2;
const TIMEOUT_MS = 25_000;

type Joined = {
  peers: unknown[];
  webrtc?: { send_transport: { id: string }; recv_transport: TransportDescription };
};

/** One peer of a crowd. Counts most messages without parsing them, because one process runs the whole crowd. */
export class Member {
  readonly peer: string;
  readonly #apiKey: string;
  #socket: WebSocket | undefined;
  /** Session of the newest connection; undefined until its `welcome`. */
  session: { id: string; token: string } | undefined;
  /** Last `joined` message since {@link forget}. */
  joined: Joined | undefined;
  /** Number of other peers in its room, by the messages that it has received. */
  others = 0;
  hasLeft = false;
  /** Number of consumers that were offered, and of those that were resumed; time of the last offer, ms of `performance.now()`. */
  readonly consumers = { offered: 0, resumed: 0, offeredAtMs: 0 };
  onJoined = () => {};
  onTransportConnected = () => {};
  onDraining = () => {};
  onClose = () => {};

  constructor(peer: string, apiKey: string) {
    this.peer = peer;
    this.#apiKey = apiKey;
  }

  /** Connects to the lobby, or resumes its session. */
  connect(url: string): void {
    const address = new URL('/ws', url.replace('http', 'ws'));
    const { session } = this;
    const resumed = session && { session_id: session.id, resume_token: session.token };
    const query = { room: '__lobby__', peer: this.peer, api_key: this.#apiKey, ...resumed };
    address.search = new URLSearchParams(query).toString();
    const socket = new WebSocket(address, { perMessageDeflate: false, skipUTF8Validation: true });
    this.#socket = socket;
    this.session = undefined;
    socket.on('message', (data: Buffer, isBinary) => {
      // The previous connection may still receive the error `replaced`.
      if (!isBinary && this.#socket === socket) this.#receive(data);
    });
    socket.on('close', () => {
      if (this.#socket === socket) this.onClose();
    });
    // Without a listener, an error would end the process. `close` always follows.
    socket.on('error', () => {});
  }

  send(message: object): void {
    this.#socket?.send(JSON.stringify(message));
  }

  /** Forgets everything that it was told about its room. */
  forget(): void {
    this.joined = undefined;
    this.others = 0;
    this.hasLeft = false;
  }

  #receive(data: Buffer): void {
    // Nearly all messages have one of these three types.
    if (data.includes('"type":"peer_joined"')) this.others += 1;
    else if (data.includes('"type":"peer_left"')) this.others -= 1;
    else if (data.includes('"type":"consumer_resumed"')) this.consumers.resumed += 1;
    else this.#read(JSON.parse(data.toString()) as Record<string, unknown>);
  }

  #read(message: Record<string, unknown>): void {
    switch (message['type']) {
      case 'welcome':
        this.session = {
          id: String(message['session_id']),
          token: String(message['resume_token']),
        };
        break;
      case 'joined':
        this.joined = message as Joined;
        this.others = this.joined.peers.length;
        this.onJoined();
        break;
      case 'left':
        this.hasLeft = true;
        break;
      case 'new_consumer':
        this.consumers.offered += 1;
        this.consumers.offeredAtMs = performance.now();
        this.send({ type: 'resume_consumer', consumer_id: message['consumer_id'] });
        break;
      case 'transport_connected':
        this.onTransportConnected();
        break;
      case 'draining':
        this.onDraining();
        break;
      case 'error':
        throw new Error(`a peer of the crowd was told ${JSON.stringify(message)}`);
    }
  }
}

/**
 * Waits until a condition holds for every member.
 * @param what description of the condition, for the error after {@link TIMEOUT_MS}
 */
export async function all(
  members: Member[],
  what: string,
  holds: (member: Member) => boolean,
): Promise<void> {
  const deadlineMs = performance.now() + TIMEOUT_MS;
  while (!members.every(holds)) {
    if (performance.now() > deadlineMs) {
      const count = members.filter(holds).length;
      throw new Error(`${what}: only ${count} of ${members.length} after ${TIMEOUT_MS} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
