import { readFileSync } from 'node:fs';
import { PartylineError } from '../../src/protocol/errors.ts';

/** An offer as a client wrote it; the lines end as in SDP. */
export const recordedOffer = (name: string): string =>
  readFileSync(new URL(`../fixtures/offers/${name}.sdp`, import.meta.url), 'utf8').replaceAll(
    '\n',
    '\r\n',
  );

/** The gateway's end of a transport. */
export const GATEWAY_END = {
  iceParameters: {
    usernameFragment: 'serverufrag00000',
    password: 'serverpassword000000000000000000',
    iceLite: true as const,
  },
  iceCandidates: [
    {
      foundation: 'udpcandidate',
      priority: 1_076_302_079,
      address: '203.0.113.7',
      ip: '203.0.113.7',
      protocol: 'udp' as const,
      port: 40_000,
      type: 'host' as const,
    },
    {
      foundation: 'tcpcandidate',
      priority: 1_076_276_479,
      address: '203.0.113.7',
      ip: '203.0.113.7',
      protocol: 'tcp' as const,
      port: 40_000,
      type: 'host' as const,
      tcpType: 'passive' as const,
    },
  ],
  dtlsParameters: {
    role: 'auto' as const,
    fingerprints: [
      { algorithm: 'sha-1' as const, value: Array(20).fill('0A').join(':') },
      { algorithm: 'sha-256' as const, value: Array(32).fill('0B').join(':') },
    ],
  },
};

/** Returns the fault that an act throws. @throws {Error} if it throws none */
export const faultOf = (act: () => unknown): PartylineError => {
  try {
    act();
  } catch (fault) {
    if (fault instanceof PartylineError) return fault;
    throw fault;
  }
  throw new Error('nothing was thrown');
};

/** Returns the result of a reader; undefined if it refuses with a fault that the client is told. */
export function toldOr<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (fault) {
    if (fault instanceof PartylineError && [400, 422].includes(fault.kind.status)) return undefined;
    throw fault;
  }
}
