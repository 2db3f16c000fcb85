import { setTimeout as sleep } from 'node:timers/promises';
import { FloorProcess } from './floor-process.ts';
import { type GatewayOptions, GatewayProcess } from './gateway-process.ts';
import { Load, type Traffic } from './load.ts';
import type { ProbeReport } from './probe-report.ts';
import type { Scenario } from './scenario.ts';

/** Until everything has been compiled that is going to be, and the mix has found its pace. */
const WARM_UP_MS = 2000;
const SETTLE_MS = 500;
/** What is still on its way when everybody has fallen silent. */
const DRAIN_MS = 500;

export type Bounds = { seconds: number; packets: Buffer[]; signal: AbortSignal };

export type GatewayFigures = {
  traffic: Traffic;
  /** Of one core. */
  nodePercent: number;
  mediaWorkerPercent: number;
  memoryKbAPeer: number;
  probe: ProbeReport | undefined;
};

export type FloorFigures = { traffic: Traffic; percent: number };

/** The gateway under the load of a scenario. */
export async function measureGateway(
  scenario: Scenario,
  bounds: Bounds,
  options: GatewayOptions = {},
): Promise<GatewayFigures> {
  const gateway = await GatewayProcess.start(options);
  try {
    await sleep(SETTLE_MS, undefined, { signal: bounds.signal });
    const idleKb = gateway.residentKb();
    const address = (room: number, peer: number) => gateway.address(room, peer, scenario.delivery);
    return await underLoad(scenario, bounds, address, async (run) => {
      if (options.probe) gateway.resetProbe();
      const before = gateway.cpuMs();
      const window = await run();
      const after = gateway.cpuMs();
      const loadedKb = gateway.residentKb();
      const traffic = await window.finish();
      const probe = options.probe ? await gateway.askProbe() : undefined;
      const unreturned = probe ? probe.counts.framesIn - probe.counts.rtpIn : 0;
      return {
        traffic: { ...traffic, lost: traffic.lost + Math.max(0, unreturned) },
        nodePercent: (after.node - before.node) / traffic.seconds / 10,
        mediaWorkerPercent: (after.mediaWorkers - before.mediaWorkers) / traffic.seconds / 10,
        memoryKbAPeer: (loadedKb - idleKb) / (scenario.rooms * scenario.peers),
        probe,
      };
    });
  } finally {
    await gateway.stop();
  }
}

/** The floor under the same load. */
export async function measureFloor(scenario: Scenario, bounds: Bounds): Promise<FloorFigures> {
  const floor = await FloorProcess.start(scenario);
  try {
    const address = (room: number, peer: number) => floor.address(room, peer);
    return await underLoad(scenario, bounds, address, async (run) => {
      const beforeMs = floor.cpuMs();
      const window = await run();
      const cpuMs = floor.cpuMs() - beforeMs;
      const traffic = await window.finish();
      return { traffic, percent: cpuMs / traffic.seconds / 10 };
    });
  } finally {
    await floor.stop();
  }
}

type Window = { finish(): Promise<Traffic> };

/** Connects everybody, warms up, and lets `measure` run the window, about which it may read what it likes. */
async function underLoad<T>(
  scenario: Scenario,
  { seconds, packets, signal }: Bounds,
  address: (room: number, peer: number) => URL,
  measure: (run: () => Promise<Window>) => Promise<T>,
): Promise<T> {
  const load = await Load.connect(scenario, packets, address);
  try {
    load.speak();
    await sleep(WARM_UP_MS, undefined, { signal });
    return await measure(async () => {
      load.beginWindow();
      await sleep(seconds * 1000, undefined, { signal });
      const { missing, ...traffic } = load.endWindow();
      return {
        finish: async () => {
          load.hush();
          await sleep(DRAIN_MS, undefined, { signal });
          return { ...traffic, lost: missing + load.unheard() };
        },
      };
    });
  } finally {
    load.close();
  }
}
