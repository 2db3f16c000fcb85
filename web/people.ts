import { meterShare, type Transport } from 'partyline-client';
import { element, part } from './element.ts';

export type Person = {
  peer: string;
  kind: Transport;
  isSelf: boolean;
  muted: boolean;
  /** How loud it is heard here. */
  gain: number;
  /** dBov; absent while silent. */
  levelDbov?: number;
};

const KIND_WORDS: Record<Transport, string> = { webrtc: 'Browser', websocket: 'WebSocket' };

/** The list of who is there. Entries are kept and changed in place, so that a ring moves and a reader keeps its place. */
export class People {
  readonly #list = element('people', HTMLUListElement);
  readonly #template = element('person', HTMLTemplateElement);
  readonly #entries = new Map<string, HTMLLIElement>();
  #setVolume: ((peer: string, gain: number) => void) | undefined;

  /** @param set called when somebody is made louder or softer; 1 is as it was sent */
  onVolume(set: (peer: string, gain: number) => void): void {
    this.#setVolume = set;
  }

  show(people: Iterable<Person>): void {
    const gone = new Set(this.#entries.keys());
    for (const person of people) {
      gone.delete(person.peer);
      const entry = this.#entries.get(person.peer) ?? this.#add(person);
      const { levelDbov } = person;
      part(entry, '.kind', HTMLElement).textContent = wordsOf(person);
      entry.dataset['speaking'] = String(levelDbov !== undefined);
      const level = levelDbov === undefined ? 0 : Math.max(0.2, meterShare(levelDbov));
      entry.style.setProperty('--level', level.toFixed(2));
    }
    for (const peer of gone) {
      this.#entries.get(peer)?.remove();
      this.#entries.delete(peer);
    }
  }

  /** Shows nobody as speaking. */
  silence(): void {
    for (const entry of this.#entries.values()) entry.dataset['speaking'] = 'false';
  }

  clear(): void {
    this.show([]);
  }

  #add({ peer, isSelf, gain }: Person): HTMLLIElement {
    const fragment = this.#template.content.cloneNode(true) as DocumentFragment;
    const entry = part(fragment, '.person', HTMLLIElement);
    entry.dataset['peer'] = peer;
    const avatar = part(entry, '.avatar', HTMLElement);
    avatar.textContent = initials(peer);
    avatar.style.setProperty('--hue', String(hue(peer)));
    const name = part(entry, '.name', HTMLElement);
    name.textContent = peer;
    name.title = peer;
    const volume = part(entry, '.volume', HTMLInputElement);
    volume.hidden = isSelf;
    volume.valueAsNumber = gain;
    volume.setAttribute('aria-label', `Volume of ${peer}`);
    volume.addEventListener('input', () => this.#setVolume?.(peer, volume.valueAsNumber));
    this.#entries.set(peer, entry);
    this.#list.append(entry);
    return entry;
  }
}

const wordsOf = ({ kind, isSelf, muted }: Person) =>
  [KIND_WORDS[kind], ...(isSelf ? ['you'] : []), ...(muted ? ['muted'] : [])].join(' · ');

/** The first letters of the first two words, by what a reader takes for a letter. */
function initials(name: string): string {
  const letters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  const first = (word: string) => letters.segment(word)[Symbol.iterator]().next().value?.segment;
  const words = name.split(/[\s._-]+/).filter(Boolean);
  return words
    .slice(0, 2)
    .map((word) => first(word)?.toLocaleUpperCase() ?? '')
    .join('');
}

/** A colour of one's own, the same on everybody's page. */
function hue(name: string): number {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 360;
  return hash;
}
