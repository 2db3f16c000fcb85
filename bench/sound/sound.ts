import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { loadCodecs } from '../../src/audio/codecs.ts';
import { type OpenRoom, SimulatedRoom } from '../../test/support/simulated-room.ts';
import { reportEntries } from './entries.ts';
import { reportLoss } from './loss.ts';
import { reportNoise, reportPlaces } from './noise.ts';
import type { Setting } from './setting.ts';
import { reportSpectrum } from './spectrum.ts';
import { reportSwitches } from './switches.ts';
import { reportBeginnings, reportBeginningsOfFew } from './words.ts';

const CODEC_SETTINGS = { bitrateBps: 32_000, complexity: 5 };

/**
 * Reports the sound of a room in virtual time: words of espeak-ng as listeners hear them, compared with the
 * sender's own stream decoded whole. Tables: beginnings of words; words that a listener joins in the middle;
 * a speaker (or music) that continues while another begins and ends; speech beside steady noise; places in
 * the mix; lost packets; the spectrum of the whole chain.
 */
export async function reportSound(
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const codecs = await loadCodecs(CODEC_SETTINGS);
  const openRoom = (speakers: string[]) => new SimulatedRoom(codecs, speakers);
  const setting: Setting = { codecs, openRoom, print, signal };
  await reportBeginnings(setting);
  await reportEntries(setting);
  await reportSwitches(setting);
  await reportNoise(setting);
  await reportPlaces(setting);
  await reportLoss(setting);
  await reportSpectrum(setting);
}

/**
 * Reports some of these tables for another checkout and for this one. This checkout encodes the speech, so that both get the same
 * packets. One run of each is enough, because virtual time gives the same result each time.
 * @param folder path of the other checkout, which has `test/support/simulated-room.ts`
 */
export async function reportSoundAgainst(
  print: (text: string) => void,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const codecs = await loadCodecs(CODEC_SETTINGS);
  const other = await loadOther(folder);
  for (const [name, openRoom] of [
    ['The other checkout', other],
    ['This checkout', (speakers: string[]) => new SimulatedRoom(codecs, speakers)],
  ] as const) {
    print(`\n${name}:\n`);
    const setting: Setting = { codecs, openRoom, print, signal };
    await reportBeginningsOfFew(setting);
    await reportSwitches(setting);
    await reportNoise(setting);
    await reportLoss(setting);
  }
}

/** Returns a function that opens rooms of another checkout, with the codecs of that checkout. */
async function loadOther(folder: string): Promise<OpenRoom> {
  const load = (path: string): Promise<unknown> => import(pathToFileURL(join(folder, path)).href);
  const roomModule = (await load('test/support/simulated-room.ts')) as {
    SimulatedRoom: typeof SimulatedRoom;
  };
  const codecModule = (await load('src/audio/codecs.ts')) as { loadCodecs: typeof loadCodecs };
  const codecs = await codecModule.loadCodecs(CODEC_SETTINGS);
  return (speakers) => new roomModule.SimulatedRoom(codecs, speakers);
}
