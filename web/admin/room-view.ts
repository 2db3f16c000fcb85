import type { PeerDescription, RoomDescription, RoomKey } from '../../src/operator/schemas.ts';
import { element, part } from '../element.ts';
import { meterShare } from '../../packages/client/src/level.ts';
import { Entries, measure, NBSP, onPress, say } from './entries.ts';

const KIND_WORDS: Record<PeerDescription['kind'], string> = {
  webrtc: 'Browser',
  websocket: 'WebSocket',
};

/** The room that was chosen, with who is in it. */
export class RoomView {
  readonly #section = element('room', HTMLElement);
  readonly #title = element('room-name', HTMLElement);
  readonly #facts = element('room-facts', HTMLElement);
  readonly #entries: Entries<PeerDescription>;
  #nameOf: (node: string) => string = (node) => node;

  constructor(onKick: (peer: PeerDescription) => void, onClose: () => void) {
    this.#entries = new Entries(
      element('peers', HTMLUListElement),
      'peer',
      ({ peer, node }) => `${node}/${peer}`,
      (entry, peer) => {
        entry.dataset['peer'] = peer.peer;
        say(entry, '.title', peer.peer);
        onPress(entry, '.kick', () => onKick(peer)).ariaLabel = `Kick ${peer.peer}`;
        return (now) => this.#showPeer(entry, now);
      },
    );
    element('close-room', HTMLButtonElement).addEventListener('click', onClose);
  }

  /** Opens it before anything is known of it, and takes the reader there. */
  open({ account_id, room }: RoomKey): void {
    this.#section.hidden = false;
    say(this.#title, 'bdi', room);
    this.#facts.textContent = `account ${account_id}`;
    this.#entries.show([]);
    this.#title.focus();
  }

  /** @param nameOf what a node is called, by its id */
  show({ account_id, peers }: RoomDescription, nameOf: (node: string) => string): void {
    this.#nameOf = nameOf;
    const nodes = new Set(peers.map(({ node }) => node)).size;
    const facts = [
      `account ${account_id}`,
      `${peers.length} ${peers.length === 1 ? 'peer' : 'peers'}`,
      `on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}`,
    ];
    this.#facts.textContent = facts.join(' · ');
    this.#entries.show(peers);
  }

  showEmpty(): void {
    this.#facts.textContent = 'Nobody is in this room any more.';
    this.#entries.show([]);
  }

  close(): void {
    this.#section.hidden = true;
  }

  #showPeer(entry: HTMLElement, peer: PeerDescription): void {
    const { level_dbov: level, audio } = peer;
    entry.dataset['speaking'] = String(level !== undefined);
    const away = peer.away ? ['connection lost, place kept'] : [];
    const facts = [KIND_WORDS[peer.kind], `on ${this.#nameOf(peer.node)}`, ...away];
    say(entry, '.facts', facts.join(' · '));
    measure(entry, level === undefined ? 0 : meterShare(level));
    say(entry, '.dbov', level === undefined ? 'silent' : `${level}${NBSP}dBov`);
    part(entry, '.audio', HTMLElement).hidden = !audio;
    if (!audio) return;
    const audioStats = [
      `dropped ${audio.dropped_ms}${NBSP}ms`,
      `concealed ${audio.concealed_ms}${NBSP}ms`,
      `waiting ${audio.buffered_ms}${NBSP}ms`,
      `drift ${audio.drift_ppm}${NBSP}ppm`,
    ];
    say(entry, '.audio', audioStats.join(' · '));
  }
}
