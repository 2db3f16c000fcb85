import { parseRtpPacket } from '../src/rtp/packet.ts';
import { connectClient, type Place } from './client.ts';
import { EAR_ROOMS, type Enter } from './ear-room.ts';
import { GatewayProcess } from './gateway-process.ts';
import { findJanusModules } from './janus-config.ts';
import { JanusLoad } from './janus-load.ts';
import { JanusPeer } from './janus-peer.ts';
import { JanusProcess } from './janus-process.ts';
import { Load } from './load.ts';
import type { Scenario } from './scenario.ts';

/** 20 ms of digital silence, in CELT. */
const SILENCE = Buffer.from([0xf8, 0xff, 0xfe]);

/** A server whose latency from mouth to ear is measured, with its background rooms. */
export type Server = {
  process: AsyncDisposable & { cpuMs(): { main: number; mediaWorkers: number } };
  /** Joins the peers of the background rooms to their rooms. @param talk Opus packets that the speakers send */
  fill(talk: Buffer[]): Promise<{ speak(): void; hush(): void; close(): void }>;
  /** Joins a peer to one of the rooms in which latency is measured. */
  enter: Enter;
};

/** Starts a server. @param scenario the background rooms */
export type StartServer = (scenario: Scenario) => Promise<Server>;

export const startGateway: StartServer = async (scenario) => {
  const gateway = await GatewayProcess.start(scenario);
  return {
    process: gateway,
    fill: (talk) => Load.connect(scenario, talk, (...place) => gateway.address(...place)),
    enter: async ({ room, peer }, onPacket) => {
      const socket = await connectClient(gateway.address(scenario.rooms + room, peer), onPacket);
      return { send: (packet) => socket.send(packet), close: () => socket.terminate() };
    },
  };
};

/** Returns the settings of Janus with which it is measured; none if it is not installed. */
export function janusSettings(): { name: string; start: StartServer }[] {
  if (findJanusModules() === undefined) return [];
  return [
    { name: 'Janus, prebuffer 2', start: (scenario) => startJanus(scenario, 2) },
    { name: 'Janus, its default', start: (scenario) => startJanus(scenario) },
  ];
}

async function startJanus(scenario: Scenario, prebufferPackets?: number): Promise<Server> {
  const janus = await JanusProcess.start();
  if (!janus) throw new Error('Janus is not installed any more');
  return {
    process: janus,
    fill: async (talk) => {
      await janus.openRooms(EAR_ROOMS, scenario.rooms);
      return JanusLoad.connect(scenario, talk, janus);
    },
    enter: async ({ room, peer }: Place, onPacket) => {
      const hear = (datagram: Buffer) => {
        const packet = parseRtpPacket(datagram, 0);
        if (packet) onPacket(packet.payload);
      };
      const place = { room: scenario.rooms + room, peer };
      const participant = await JanusPeer.join(janus, place, hear, prebufferPackets);
      // Janus sends nothing to a participant that has not sent.
      participant.send(SILENCE);
      return participant;
    },
  };
}
