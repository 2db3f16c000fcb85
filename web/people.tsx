import { meterShare, type Transport } from 'partyline-client';
import { Component } from 'preact';
import { useState } from 'preact/hooks';
import type { Person } from './page-state.ts';

const KIND_WORDS: Record<Transport, string> = { webrtc: 'WebRTC', websocket: 'WebSocket' };

/** List of the peers in the room. @param onVolume called when the volume of a peer is changed; 1 is as it was sent */
export function People({
  people,
  onVolume,
}: {
  people: readonly Person[];
  onVolume: (peer: string, gain: number) => void;
}) {
  return (
    <ul id="people" aria-label="People in the room">
      {people.map((person) => (
        <KeptEntry key={person.peer} person={person} onVolume={onVolume} />
      ))}
    </ul>
  );
}

type EntryProps = { person: Person; onVolume: (peer: string, gain: number) => void };

/** An entry that is drawn again only if its person has changed: most changes are of one among many. */
class KeptEntry extends Component<EntryProps> {
  override shouldComponentUpdate({ person }: EntryProps): boolean {
    const { person: shown } = this.props;
    return SHOWN.some((name) => person[name] !== shown[name]);
  }

  override render(props: EntryProps) {
    return <PersonEntry {...props} />;
  }
}

/** Parts of a person that its entry shows. */
const SHOWN = ['peer', 'kind', 'isSelf', 'muted', 'levelDbov'] as const;

function PersonEntry({ person, onVolume }: EntryProps) {
  const { peer, isSelf, levelDbov } = person;
  const [gain, setGain] = useState(person.gain);
  const level = levelDbov === undefined ? 0 : Math.max(0.2, meterShare(levelDbov));
  return (
    <li
      class="person"
      data-peer={peer}
      data-speaking={String(levelDbov !== undefined)}
      style={{ '--level': level.toFixed(2) }}
    >
      <span class="avatar" aria-hidden="true" style={{ '--hue': String(hue(peer)) }}>
        {initials(peer)}
      </span>
      <span class="who">
        <bdi class="name" title={peer}>
          {peer}
        </bdi>
        <span class="kind quiet">{wordsOf(person)}</span>
        {!isSelf && (
          <input
            class="volume"
            type="range"
            min="0"
            max="2"
            step="0.05"
            value={gain}
            aria-label={`Volume of ${peer}`}
            onInput={({ currentTarget }) => {
              setGain(currentTarget.valueAsNumber);
              onVolume(peer, currentTarget.valueAsNumber);
            }}
          />
        )}
      </span>
      <span class="voice">
        <i />
        <i />
        <i />
        <span class="visually-hidden">speaking</span>
      </span>
    </li>
  );
}

const wordsOf = ({ kind, isSelf, muted }: Person) =>
  [KIND_WORDS[kind], ...(isSelf ? ['you'] : []), ...(muted ? ['muted'] : [])].join(' · ');

/** The first letters of the first two words, by what a reader takes for a letter. */
function initials(name: string): string {
  const words = name.split(/[\s._-]+/).filter(Boolean);
  return words
    .slice(0, 2)
    .map((word) => firstLetter(word).toLocaleUpperCase())
    .join('');
}

/** Returns the first character of a word with its accents; without them in Firefox before 125, which has no `Intl.Segmenter`. */
function firstLetter(word: string): string {
  if (!letters) return String.fromCodePoint(word.codePointAt(0)!);
  const [first] = letters.segment(word);
  return first?.segment ?? '';
}

/** Made once: a Segmenter takes as long to make as dozens of entries to draw. */
const letters =
  'Segmenter' in Intl ? new Intl.Segmenter(undefined, { granularity: 'grapheme' }) : undefined;

/** Returns the colour of a peer, the same on every page. */
function hue(name: string): number {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 360;
  return hash;
}
