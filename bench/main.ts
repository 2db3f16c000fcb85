import { reportAgainst } from './against.ts';
import { pinLoad } from './child.ts';
import { runCommand } from './command.ts';
import { reportDetection } from './detection.ts';
import { reportGrowth } from './growth.ts';
import { reportHostile } from './hostile/hostile.ts';
import { reportLatency } from './latency.ts';
import { type Bounds, measureCost, measureInside, measureJanus } from './measure.ts';
import { reportOperator } from './operator.ts';
import { type Options, readOptions, USAGE } from './options.ts';
import { encodePackets } from './packets.ts';
import { reportPauses } from './pauses.ts';
import { reportFoot, reportHead, reportMachine, reportRow } from './report.ts';
import { isDisturbed, type Row } from './row.ts';
import { writePlots } from './plots.ts';
import { reportRush } from './rush.ts';
import { PAUSING, type Scenario, TABLE } from './scenario.ts';
import { reportSound, reportSoundAgainst } from './sound/sound.ts';
import { reportWebRtc } from './webrtc.ts';

/** Load generator: measures the cost of the gateway, beside the lower bound for the same traffic. */

const print = (text: string) => process.stdout.write(text);

async function measure(scenario: Scenario, bounds: Bounds, profileDir?: string): Promise<Row> {
  const isCompared = scenario.speakers > 0 && profileDir === undefined;
  const cost = await measureCost(scenario, bounds, { withFloor: isCompared, profileDir });
  const inside = isCompared ? await measureInside(scenario, bounds) : undefined;
  const isMixedOpus = scenario.delivery === 'mix' && scenario.hear === 'opus';
  const hasJanus = isCompared && isMixedOpus && !scenario.isInStep;
  const janus = hasJanus ? await measureJanus(scenario, bounds) : undefined;
  return { scenario, ...cost, inside, janus };
}

async function measureTable({ scenarios, seconds, profileDir }: Options, signal: AbortSignal) {
  const encoded = await encodePackets();
  print(`${reportMachine(encoded, seconds)}\n${reportHead()}`);
  const rows: Row[] = [];
  for (const scenario of scenarios) {
    const bounds = { seconds, packets: encoded.packets, signal };
    let row = await measure(scenario, bounds, profileDir);
    if (isDisturbed(row)) row = await measure(scenario, bounds, profileDir);
    rows.push(row);
    print(reportRow(row));
  }
  print(reportFoot(rows));
}

/** Returns the rows to compare with another checkout: those that the options name, or those of the parts `table` and `pauses`. */
function scenariosAgainst({ scenarios, parts }: Options): Scenario[] {
  if (scenarios !== TABLE) return scenarios;
  return [...(parts.includes('table') ? TABLE : []), ...(parts.includes('pauses') ? PAUSING : [])];
}

async function run(options: Options, signal: AbortSignal) {
  pinLoad();
  if (options.against) {
    const { seconds, against, parts } = options;
    const isOfSound = parts.length === 1 && parts[0] === 'sound';
    if (isOfSound) await reportSoundAgainst(print, against.folder, signal);
    else await reportAgainst(print, scenariosAgainst(options), against, { seconds, signal });
    return;
  }
  for (const part of options.parts) {
    if (part === 'table') await measureTable(options, signal);
    else if (part === 'pauses') await reportPauses(print, signal);
    else if (part === 'latency') await reportLatency(print, signal);
    else if (part === 'operator') await reportOperator(print, signal);
    else if (part === 'rush') await reportRush(print, signal);
    else if (part === 'growth') await reportGrowth(print, signal);
    else if (part === 'hostile') await reportHostile(print, options.hostile, signal);
    else if (part === 'sound') await reportSound(print, signal);
    else if (part === 'plots') writePlots();
    else if (part === 'webrtc') await reportWebRtc(print, signal);
    else print(await reportDetection(options.seeds, signal));
  }
}

await runCommand(USAGE, readOptions, run);
