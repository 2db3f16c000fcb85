import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { GatewayProcess } from './gateway-process.ts';
import { type Figures, openTrial } from './measure.ts';
import { encodePackets } from './packets.ts';
import { encodeSpeech } from './pauses.ts';
import { quantile } from './percentiles.ts';
import { nameOf, type Scenario } from './scenario.ts';

const SETTLE_MS = 500;
/** Time until the hot code of both is compiled, ms. The compiler's threads count as CPU, and take longer with more code. */
const COMPILE_MS = 60_000;
/**
 * Maximum numbers of rooms, peers and speakers while the code is compiled. One room has 50 ticks a second, of which each takes 58 µs after
 * a minute and 42 µs after four: rooms of the same shape run the same code more often. More peers or speakers would strain the
 * gateway, which then encodes more cheaply.
 */
const MOST_ROOMS = 20;
const MOST_PEERS = 200;
const MOST_SPEAKERS = 100;
/** Number of the first of these rooms: those that are measured are new. */
const FIRST_ROOM = 1000;

export type AgainstOptions = {
  /** Folder of the other checkout, with its packages installed. */
  folder: string;
  /** Number of windows of each of the two in a scenario. */
  pairs: number;
};

type Bounds = { seconds: number; packets: Buffer[]; signal: AbortSignal };

/**
 * Measures the CPU of the gateway of this checkout and of another one, by turns under the same load; each
 * pair begins with the one that ended the pair before. The ratio of a row is the median of its pairs.
 */
export async function reportAgainst(
  print: (text: string) => void,
  scenarios: Scenario[],
  { folder, pairs }: AgainstOptions,
  { seconds, signal }: { seconds: number; signal: AbortSignal },
): Promise<void> {
  const { packets: steady } = await encodePackets();
  const pausing = await encodeSpeech();
  print(
    `\n${pairs} pairs of ${seconds} s by turns; the other checkout first:\n\n` +
      '| rooms × peers × speakers | delivery | heard | CPU of the other | CPU of this | this over the other | least to most | KB/s out of the other | KB/s out of this |\n' +
      '| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n',
  );
  const ratios: number[] = [];
  for (const scenario of scenarios.filter(({ speakers }) => speakers > 0)) {
    const packets = scenario.hasPauses ? pausing : steady;
    const bounds = { seconds, packets, signal };
    const [other, own] = await measurePairs(scenario, folder, pairs, bounds);
    const quotients = own.percent.map((percent, index) => percent / other.percent[index]!);
    const [least, most] = [Math.min(...quotients), Math.max(...quotients)];
    ratios.push(median(quotients));
    const { delivery, hear, hasPauses } = scenario;
    const name = hasPauses ? `${nameOf(scenario)}, speech with pauses` : nameOf(scenario);
    // Without pauses the number of bytes follows from the scenario.
    const bytesOut = [other, own].map(({ kbPerS }) => (hasPauses ? kbPerS.toFixed(1) : ''));
    print(
      `| ${name} | ${delivery} | ${hear} | ${median(other.percent).toFixed(1)} % | ${median(own.percent).toFixed(1)} % | ` +
        `${median(quotients).toFixed(2)} | ${least.toFixed(2)} to ${most.toFixed(2)} | ${bytesOut.join(' | ')} |\n`,
    );
  }
  const logs = ratios.map(Math.log);
  const mean = Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);
  print(`\nGeometric mean over the rows: ${mean.toFixed(3)}\n`);
}

/** CPU of each window, in % of a core, and bytes to the clients in all of them. */
type Windows = { percent: number[]; kbPerS: number };

/** Returns the figures of the other checkout, and of this one. */
async function measurePairs(
  scenario: Scenario,
  folder: string,
  pairs: number,
  bounds: Bounds,
): Promise<[Windows, Windows]> {
  const project = pathToFileURL(`${folder}/`);
  await using other = await GatewayProcess.start(scenario, { project });
  await using own = await GatewayProcess.start(scenario);
  await sleep(SETTLE_MS, undefined, { signal: bounds.signal });
  for (const gateway of [other, own]) await compile(gateway, scenario, bounds);
  using otherTrial = await openTrial(other, scenario, bounds);
  using ownTrial = await openTrial(own, scenario, bounds);
  const others: number[] = [];
  const owns: number[] = [];
  const percent = (cpuMs: number) => cpuMs / bounds.seconds / 10;
  const measureOther = async () => others.push(percent(await otherTrial.turn(bounds.seconds)));
  const measureOwn = async () => owns.push(percent(await ownTrial.turn(bounds.seconds)));
  for (let pair = 0; pair < pairs; pair += 1) {
    const order = pair % 2 === 0 ? [measureOther, measureOwn] : [measureOwn, measureOther];
    for (const measure of order) await measure();
  }
  return [
    { percent: others, kbPerS: kbPerSOf(otherTrial.figures()) },
    { percent: owns, kbPerS: kbPerSOf(ownTrial.figures()) },
  ];
}

/** Lets the clients of several rooms of the same shape speak until the code of a gateway is compiled. */
async function compile(gateway: GatewayProcess, scenario: Scenario, bounds: Bounds): Promise<void> {
  const { rooms, peers, speakers } = scenario;
  const most = Math.min(MOST_ROOMS, MOST_PEERS / peers, MOST_SPEAKERS / speakers);
  const filled = { ...scenario, rooms: Math.max(rooms, Math.floor(most)) };
  using trial = await openTrial(gateway, filled, bounds, FIRST_ROOM);
  await trial.compile(COMPILE_MS);
}

const kbPerSOf = ({ traffic: { bytesOut, seconds } }: Figures) => bytesOut / seconds / 1000;

function median(values: number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}
