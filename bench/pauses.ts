import { SENDERS } from '../test/support/senders.ts';
import { encodeOpus } from '../test/support/sound.ts';
import { spokenTrack } from '../test/support/speech.ts';
import { measureCost } from './measure.ts';
import { cpuPercent } from './row.ts';
import { nameOf, PAUSING } from './scenario.ts';

/** Length of the measurement: many words and pauses of each speaker. */
const SECONDS = 24;
const VOICES = ['en-us', 'en-us+f3'];
const PAUSE_MS = 1300;

/** Measures the cost of rooms whose speakers pause between their words: CPU, and bytes to the clients. */
export async function reportPauses(
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const packets = await encodeSpeech();
  print(
    '\n| speech with pauses | CPU | frames/s in + out | KB/s out |\n| --- | --- | --- | --- |\n',
  );
  for (const scenario of PAUSING) {
    const bounds = { seconds: SECONDS, packets, signal };
    const { gateway } = await measureCost(scenario, bounds, {
      withFloor: false,
      profileDir: undefined,
    });
    const { seconds, framesIn, framesOut, bytesOut } = gateway.traffic;
    const frames = `${Math.round(framesIn / seconds)} + ${Math.round(framesOut / seconds)}`;
    const kilobytes = (bytesOut / seconds / 1000).toFixed(1);
    print(
      `| ${nameOf(scenario)} | ${cpuPercent(gateway).toFixed(1)} % | ${frames} | ${kilobytes} |\n`,
    );
  }
}

/** Encodes words of two voices with pauses between them, as a browser does. */
export async function encodeSpeech(): Promise<Buffer[]> {
  const packets: Buffer[] = [];
  for (const voice of VOICES) {
    const { sound } = await spokenTrack({ voice, pauseMs: PAUSE_MS });
    packets.push(...(await encodeOpus(sound, 20, SENDERS.browser.opus)));
  }
  return packets;
}
