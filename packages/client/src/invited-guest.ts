import { PartylineClient } from './client.ts';
import { Microphone } from './microphone.ts';
import type { ClientOptions, ClientState } from './state.ts';

/** Maximum wait for the gateway's answer when an invitation is redeemed, ms. */
const REDEEMED_WITHIN_MS = 10_000;

/** Shows a sentence to the user. */
type Show = (words: string) => void;

/**
 * Visits of a user that has the link of an invitation, for pages that need no more: opens the microphone, redeems the invitation, and
 * joins the room.
 */
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
   * Enters the room of an invitation; to be called in the handler of a click. Resolves when the visit is over; never rejects. A call
   * during a visit makes no second peer; it only resumes playback, which the browser may block until a click.
   * @param link address of the gateway's page, with the invitation in its fragment
   * @param name beginning of the name by which the others know this peer
   */
  async enter(link: string, name?: string): Promise<void> {
    if (this.#isVisiting) return this.#client?.resumePlayback();
    this.#isVisiting = true;
    let microphone: Microphone | undefined;
    try {
      this.#show('Waiting for the microphone…');
      // The microphone comes before the peer, which takes one of the account's connections: the
      // user may refuse it.
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

/**
 * Joins a room. Resolves when the visit has ended.
 * @returns the reason why it ended
 * @throws {PartylineError} if the room is not joined
 */
function visit(
  client: PartylineClient,
  room: string,
  track: MediaStreamTrack,
  show: Show,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let hasJoined = false;
    let fault = '';
    let before: ClientState['name'] | undefined;
    const changed = (state: ClientState) => {
      // A fault is over when the room has been joined again.
      if (state.name === 'in_room' && before !== 'in_room') fault = '';
      before = state.name;
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

/** Exchanges an invitation for the token of a peer in its room. @throws {Error} with a sentence for the user */
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

/** Replaces `URL.parse`, which browsers from before 2024 do not have. */
function parse(link: string): URL | undefined {
  try {
    return new URL(link);
  } catch {
    return undefined;
  }
}

/** Answer of the gateway to an invitation; `detail` is the reason of a refusal. */
type Answer = { peer: string; room: string; token: string; detail?: string };
