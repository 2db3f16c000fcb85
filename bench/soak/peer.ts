import { setTimeout as delay } from 'node:timers/promises';
import { TestClient } from '../../test/support/client.ts';
import { play } from '../../test/support/sound.ts';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import type { ConnectionLedger, Ledger } from './ledger.ts';
import type { SoakNodes } from './nodes.ts';
import type { Act, Visit } from './plan.ts';
import type { EventCounts } from './event-counts.ts';

export type Persona = {
  name: string;
  account: { id: number; apiKey: string };
  isBrowser: boolean;
  query: Record<string, string>;
  /** Audio that the peer sends, in messages of 20 ms. */
  sound: Buffer[];
};

export type PeerParts = {
  nodes: SoakNodes;
  ledger: Ledger;
  tally: EventCounts;
  /** Aborted when all peers must leave. */
  ending: AbortSignal;
};

const HANDSHAKE_TIMEOUT_MS = 5000;
/** Timeout of an answer, ms: a join may wait for a media worker, or for a Redis that is disconnected. */
const ANSWER_TIMEOUT_MS = 10_000;
const RETRY_AFTER_MS = 400;
const FRAME_MS = 20;

/** Client that follows its plan as far as it can, and comes back when it is thrown out. */
export class SoakPeer {
  readonly #persona: Persona;
  readonly #parts: PeerParts;
  #session: Record<string, string> = {};
  #connection: { client: TestClient; stay: ConnectionLedger; ended: AbortSignal } | undefined;

  constructor(persona: Persona, parts: PeerParts) {
    this.#persona = persona;
    this.#parts = parts;
  }

  /** Makes visits until there are no more, or all peers must leave. */
  async run(visits: Iterable<Visit>): Promise<void> {
    const { ending, tally } = this.#parts;
    for (const visit of visits) {
      await pause(visit.awayMs, ending);
      if (ending.aborted) return;
      try {
        await this.#visit(visit);
      } catch (fault) {
        tally.add(`visit broken off: ${fault instanceof Error ? reasonOf(fault) : String(fault)}`);
        await pause(RETRY_AFTER_MS, ending);
      }
      this.#leaveNothing();
    }
  }

  /** Reads nothing for `ms`, and is then cut off. */
  async stopReading(ms: number): Promise<void> {
    const connection = this.#connection;
    if (!connection?.stay.isInRoom) return;
    const { client, stay, ended } = connection;
    stay.stoppedReading();
    client.stopReading();
    await pause(ms, AbortSignal.any([ended, this.#parts.ending]));
    stay.left();
    client.vanish();
  }

  async #visit(visit: Visit): Promise<void> {
    const { client, stay, ended } = await this.#connect(visit);
    const isOver = AbortSignal.any([ended, this.#parts.ending]);
    const isResumed = await this.#arrive(client, visit);
    this.#parts.tally.add(isResumed ? 'resumed' : 'joined');
    let room = visit.room;
    for (const act of visit.acts) {
      if (isOver.aborted) break;
      if (act.type === 'move') room = act.room;
      await this.#act(client, act, room, isOver);
    }
    if (visit.ends === 'close') {
      await client.close();
      return;
    }
    stay.left();
    client.vanish();
    await client.closed;
  }

  async #connect({ node, comes, room, isRoomInQuery }: Visit) {
    const { nodes, ledger, tally } = this.#parts;
    const { name, account, query } = this.#persona;
    const { url, run } = nodes.pick(node);
    const byToken = comes === 'by token' ? this.#session : {};
    const client = await TestClient.connect(
      url,
      {
        ...query,
        room: isRoomInQuery && !this.#persona.isBrowser ? room : '__lobby__',
        peer: name,
        api_key: account.apiKey,
        ...byToken,
      },
      { handshakeTimeout: HANDSHAKE_TIMEOUT_MS },
    );
    const stay = ledger.connect(account.id, run);
    const ended = new AbortController();
    for (const message of client.messages) this.#told(message, stay);
    client.onMessage = (message) => this.#told(message, stay);
    void client.closed.then((code) => {
      stay.left();
      ended.abort();
      tally.add(`closed with ${code}`);
    });
    this.#connection = { client, stay, ended: ended.signal };
    return this.#connection;
  }

  #told(message: ServerMessage, stay: ConnectionLedger): void {
    if (message.type === 'joined') stay.entered();
    if (message.type === 'left') stay.left();
    if (message.type === 'error') this.#parts.tally.add(`told ${message.code}`);
    if (message.type === 'welcome') {
      this.#session = { session_id: message.session_id, resume_token: message.resume_token };
    }
  }

  /**
   * Enters its room.
   * @returns true if the gateway put it there, because it had been there before
   */
  async #arrive(client: TestClient, visit: Visit): Promise<boolean> {
    const { isBrowser } = this.#persona;
    const welcome = await untilTold(client, 'welcome');
    const isPut = welcome.resumed === true && !isBrowser;
    const joins = isBrowser || !(isPut || visit.isRoomInQuery);
    if (joins) client.send(this.#joinOf(visit.room));
    await untilTold(client, 'joined');
    return welcome.resumed === true;
  }

  async #act(client: TestClient, act: Act, room: string, isOver: AbortSignal): Promise<void> {
    if (act.type === 'idle') await pause(act.ms, isOver);
    else if (act.type === 'talk') await this.#talk(client, act.ms, isOver);
    else if (act.type === 'send') await this.#sendWrong(client, act.text);
    else if (act.type === 'move') await this.#move(client, room);
    else {
      const from = client.messages.length;
      client.send({ type: 'leave' });
      await untilTold(client, 'left', from);
      await pause(act.ms, isOver);
      if (!isOver.aborted) await this.#move(client, room);
    }
  }

  async #move(client: TestClient, room: string): Promise<void> {
    const from = client.messages.length;
    client.send(this.#joinOf(room));
    await untilTold(client, 'joined', from);
  }

  async #sendWrong(client: TestClient, text: string): Promise<void> {
    const from = client.messages.length;
    client.send(text);
    await Promise.race([client.next('error', from, ANSWER_TIMEOUT_MS), client.closed]);
  }

  async #talk(client: TestClient, ms: number, isOver: AbortSignal): Promise<void> {
    // A browser would need media.
    if (this.#persona.isBrowser) await pause(ms, isOver);
    else await play(client, this.#persona.sound.slice(0, ms / FRAME_MS), isOver);
  }

  #joinOf(room: string) {
    return { type: 'join', room, ...(this.#persona.isBrowser && { media: 'webrtc' }) };
  }

  /** Closes the socket that an interrupted visit has left. */
  #leaveNothing(): void {
    this.#connection?.stay.left();
    this.#connection?.client.vanish();
    this.#connection = undefined;
  }
}

/**
 * Waits for a message, or for an error or the end of the connection.
 * @throws {Error} with that error or close code
 */
async function untilTold<T extends 'welcome' | 'joined' | 'left'>(
  client: TestClient,
  type: T,
  from = 0,
) {
  const closed = client.closed.then((code) => {
    throw new Error(`closed with ${code}`);
  });
  const refused = client.next('error', from, ANSWER_TIMEOUT_MS).then(
    ({ code }) => {
      throw new Error(`refused: ${code}`);
    },
    // No error came, as intended.
    () => new Promise<never>(() => {}),
  );
  return Promise.race([client.next(type, from, ANSWER_TIMEOUT_MS), refused, closed]);
}

/** Returns the reason of an error without numbers, which differ each time. */
const reasonOf = ({ message }: Error) =>
  message.replace(/;.*/s, '').replace(/\d+\.\d+\.\d+\.\d+:\d+/, '');

/** Waits for `ms`, or until the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}
