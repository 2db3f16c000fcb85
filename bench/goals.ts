import { floorRatioOf, janusRatioOf, lostIn, peersOf, type Row } from './row.ts';
import { isPassThrough, nameOf } from './scenario.ts';

const GOALS = { floorRatio: 1.5, insideP99Ms: 5, loopDelayP99Ms: 5, memoryKb: 150 };
/** Number of rooms and peers for which the latency goal is set; the memory goal is for as many peers or more. */
const GOAL_ROOMS = 20;
const GOAL_PEERS = 200;
/** Maximum ratio of the gateway's CPU to Janus's, by scenario. */
const JANUS_GOALS = new Map([
  ['1 × 50 × 3', 0.2],
  ['1 × 100 × 3', 0.2],
  ['1 × 50 × 50', 0.2],
  ['20 × 5 × 2', 0.33],
]);

export const met = (isMet: boolean) => (isMet ? 'met' : 'NOT MET');

/** Returns one line for each goal for which the rows have figures. */
export function reportGoals(rows: Row[]): string[] {
  const lines = [
    ...floorGoal(rows),
    ...insideGoals(rows),
    ...loopGoals(rows),
    ...memoryGoal(rows),
    ...janusGoals(rows),
  ];
  return lines.map((line) => `- ${line}`);
}

function floorGoal(rows: Row[]): string[] {
  const [worst] = rows
    .filter(({ scenario }) => isPassThrough(scenario))
    .flatMap((row) => {
      const ratio = floorRatioOf(row);
      return ratio === undefined ? [] : [{ name: nameOf(row.scenario), ratio }];
    })
    .toSorted((a, b) => b.ratio - a.ratio);
  if (!worst) return [];
  return [
    `${met(worst.ratio <= GOALS.floorRatio)}: Node CPU a packet at most ${GOALS.floorRatio} × the floor in pass-through: ${worst.ratio.toFixed(2)} in ${worst.name}`,
  ];
}

function insideGoals(rows: Row[]): string[] {
  const atGoal = rows.filter(
    (row) => row.scenario.rooms === GOAL_ROOMS && peersOf(row) === GOAL_PEERS,
  );
  if (atGoal.length === 0) return [];
  const lost = atGoal.reduce((sum, row) => sum + lostIn(row), 0);
  const lines = [`${met(lost === 0)}: no frame lost at 200 peers in 20 rooms: ${lost}`];
  // In mixed scenarios the few packets that pass through wait for the mix.
  const inside = atGoal.flatMap((row) =>
    isPassThrough(row.scenario) ? (row.inside?.probe.inside?.p99Ms ?? []) : [],
  );
  if (inside.length === 0) return lines;
  const insideMs = Math.max(...inside);
  return [
    ...lines,
    `${met(insideMs < GOALS.insideP99Ms)}: inside for less than ${GOALS.insideP99Ms} ms at p99 there, in pass-through: ${insideMs.toFixed(2)} ms`,
  ];
}

function loopGoals(rows: Row[]): string[] {
  return rows.flatMap(({ scenario, inside }) => {
    if (!scenario.isInStep || !inside) return [];
    const { loopDelayP99Ms } = inside.probe;
    return [
      `${met(loopDelayP99Ms < GOALS.loopDelayP99Ms)}: event loop less than ${GOALS.loopDelayP99Ms} ms late at p99 in ${nameOf(scenario)}: ${loopDelayP99Ms.toFixed(1)} ms`,
    ];
  });
}

function memoryGoal(rows: Row[]): string[] {
  const large = rows.filter((row) => peersOf(row) >= GOAL_PEERS);
  if (large.length === 0) return [];
  const memoryKb = Math.max(...large.map((row) => row.memoryKbAPeer));
  return [
    `${met(memoryKb < GOALS.memoryKb)}: memory under ${GOALS.memoryKb} KB a peer, at 200 peers: ${memoryKb.toFixed(0)} KB`,
  ];
}

function janusGoals(rows: Row[]): string[] {
  return rows.flatMap((row) => {
    const goal = JANUS_GOALS.get(nameOf(row.scenario));
    const ratio = janusRatioOf(row);
    if (goal === undefined || ratio === undefined) return [];
    return [
      `${met(ratio <= goal)}: CPU at most ${goal} × Janus's in ${nameOf(row.scenario)}: ${ratio.toFixed(2)}`,
    ];
  });
}
