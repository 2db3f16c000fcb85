import { PartylineClient } from './client.ts';
import { Microphone } from './microphone.ts';
import type { ClientOptions, ClientState } from './state.ts';

/** Maximum wait for the answer to an invitation, ms. */
const REDEEMED_WITHIN_MS = 10_000;

/** Says something to the user. */
type Show = (words: string) => void;

/** A user with a microphone and the link of an invitation: everything between a click and a room, for pages that need no more. */
export class InvitedGuest {
  readonly #show: Show;
  #isVisiting = false;
  #client: PartylineClient | undefined;

  /** @param show called with a sentence at each change, and with the reason when a visit has ended */
  constructor(show: Show) {
    this.#show = show;
  }

  /** Client of the present visit; undefined outside of one. */
  get client(): PartylineClient | undefined {
    return this.#client;
  }

  /**
   * Enters the room of an invitation; to be called in the handler of a click. Resolves when the visit is over; never rejects. During a visit
   * it only plays audio that the browser has blocked until a click: a second click makes no second peer.
   * @param link address of the gateway's page, with the invitation in its fragment
   * @param name beginning of the name by which the others know this peer
   */
  async enter(link: string, name?: string): Promise<void> {
    if (this.#isVisiting) return this.#client?.resumePlayback();
    this.#isVisiting = true;
    let microphone: Microphone | undefined;
    try {
      this.#show('Waiting for the microphone…');
      // First, because the user may refuse: a peer counts as a connection of the account.
      microphone = await Microphone.open();
      const { room, ...options } = await redeem(link, name);
      this.#client = new PartylineClient(options);
      this.#show(await visit(this.#client, room, microphone.track, this.#show));
    } catch (error) {
      this.#show(error instanceof Error ? error.message : String(error));
    } finally {
      this.#client?.close();
      this.#client = undefined;
      microphone?.close();
      this.#isVisiting = false;
    }
  }
}

/** Joins a room. @returns the reason for which the visit ended @throws {PartylineError} if the room is not joined */
function visit(
  client: PartylineClient,
  room: string,
  track: MediaStreamTrack,
  show: Show,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let hasJoined = false;
    let fault = '';
    const changed = (state: ClientState) => {
      if (state.name === 'closed') resolve(state.reason.message);
      // The gateway has removed the client from its room, and the fault says why.
      else if (state.name === 'lobby' && hasJoined) resolve(fault);
      else show(`${wordsOf(state)} ${fault}`.trim());
    };
    client.on('fault', (message) => {
      fault = message;
      changed(client.state);
    });
    client.on('change', changed);
    const join = async () => {
      await client.connect();
      await client.join(room, track);
      hasJoined = true;
    };
    join().catch(reject);
  });
}

function wordsOf(state: ClientState): string {
  if (state.name === 'reconnecting') return `${state.reason.message} Trying again…`;
  if (state.name !== 'in_room') return 'Connecting…';
  const others = [...state.peers.keys()];
  const place = `In the room ${state.room}, ${others.length > 0 ? `with ${others.join(', ')}` : 'alone'}.`;
  return state.trouble === undefined ? place : `${place} ${state.trouble}`;
}

/** Exchanges an invitation for a peer of its room. @throws {Error} with a sentence for the user */
async function redeem(link: string, name?: string): Promise<ClientOptions & { room: string }> {
  const address = parse(link);
  const invite = new URLSearchParams(address?.hash.slice(1)).get('invite');
  if (!address || invite === null) throw new Error('This is not the link of an invitation.');
  const response = await fetch(new URL('api/invites/redeem', address), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ invite, name }),
    signal: AbortSignal.timeout(REDEEMED_WITHIN_MS),
  }).catch(() => undefined); // the browser does not say what was wrong
  const answer = (await response?.json().catch(() => undefined)) as Answer | undefined;
  if (!response?.ok || !answer?.token) {
    throw new Error(answer?.detail ?? 'The gateway of this invitation cannot be reached.');
  }
  const { peer, room, token } = answer;
  // The gateway may be below a path.
  return { room, peer, url: new URL('ws', address), getToken: () => Promise.resolve(token) };
}

/** Does what `URL.parse` does, which browsers have had since 2024. */
function parse(link: string): URL | undefined {
  try {
    return new URL(link);
  } catch {
    return undefined;
  }
}

/** Answer to an invitation; `detail` says why it is refused. */
type Answer = { peer: string; room: string; token: string; detail?: string };
