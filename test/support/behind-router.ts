import type { Codecs } from '../../src/audio/codecs.ts';
import { LateBeginning } from '../../src/audio/mixing/late-beginning.ts';
import { PacketHistory } from '../../src/audio/mixing/packet-history.ts';
import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import { LateStream } from '../../src/bridge/late-stream.ts';
import { AT_SHARE, AFTER_WORD_MS, LEAST_REST_MS, type Said } from './entries.ts';
import { compareEntry, type EntryError } from './heard-words.ts';
import { joinAll } from './simulated-room.ts';

/** Listeners behind the router, which get a legacy client's packets from its uplink: browsers, and mixers of other nodes. */

/** Decoder that hears the rest of a word: the one that has heard the words before it, or a new one. */
export type RoutedEntry = 'unmuted' | 'new';

/** Compares each word, as somebody behind the router hears it from its middle on, with the word as it was sent. */
export async function hearBehindRouter(
  codecs: Codecs,
  entry: RoutedEntry,
  { arrivals, words, references }: Said,
): Promise<EntryError[]> {
  const errors: EntryError[] = [];
  const history = new PacketHistory<{ payload: Buffer; durationSamples: number }>();
  let sent: Buffer[] = [];
  const open = () => new LateStream(({ payload }) => sent.push(payload));
  let decoder = await codecs.opus.createDecoder();
  let stream = open();
  let at = 0;
  for (const word of words) {
    const fromMs = (word.fromSample + word.samples * AT_SHARE) / 48;
    const endMs = (word.fromSample + word.samples) / 48;
    for (; arrivals[at] && arrivals[at]!.atMs < fromMs; at += 1)
      history.push(pastOf(arrivals[at]!));
    if (entry === 'new') {
      stream.close();
      decoder.close();
      [stream, decoder] = [open(), await codecs.opus.createDecoder()];
    }
    sent = [];
    const fromSample = Math.round((arrivals[at]?.atMs ?? 0) * 48);
    let isFirst = true;
    for (; arrivals[at] && arrivals[at]!.atMs < endMs + AFTER_WORD_MS; at += 1) {
      const past = pastOf(arrivals[at]!);
      const beginning = isFirst ? LateBeginning.open(codecs.opus, history.forDecoder) : undefined;
      isFirst = false;
      stream.send({ ...past, audioLevel: 30, gapSamples: 0, beginning });
      history.push(past);
      await beginning;
      await new Promise(setImmediate);
    }
    const sound = joinAll(sent.map((payload) => decoder.decode(payload).slice()));
    const rest = {
      fromSample: Math.round(fromMs * 48),
      samples: Math.round((endMs - fromMs) * 48),
    };
    if (rest.samples < LEAST_REST_MS * 48) continue;
    errors.push(compareEntry(references, [{ fromSample, sound }], rest));
  }
  stream.close();
  decoder.close();
  return errors;
}

const pastOf = ({ packet: { payload } }: Said['arrivals'][number]) => ({
  payload,
  durationSamples: opusPacketSamples(payload) ?? 0,
});
