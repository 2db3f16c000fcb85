/** A scenario: the number of rooms, of peers in each, and of speakers among these. */
export type Scenario = {
  rooms: number;
  /** Peers in each room. */
  peers: number;
  /** Speakers among the peers of each room; they speak all the time. */
  speakers: number;
  delivery: 'mix' | 'forward';
  /** All peers send Opus; `pcm` is 16 kHz, mono, 16 bits. */
  hear: 'opus' | 'pcm';
  /** True if speakers say words with pauses between them. */
  hasPauses?: boolean;
  /** True if all speakers send at the same moment of the 20 ms. */
  isInStep?: boolean;
};

/** Returns a scenario in which packets are mixed, and heard as Opus. */
export const mixed = (rooms: number, peers: number, speakers: number): Scenario => ({
  rooms,
  peers,
  speakers,
  delivery: 'mix',
  hear: 'opus',
});

export const TABLE: Scenario[] = [
  mixed(20, 10, 1),
  { ...mixed(20, 10, 1), delivery: 'forward' },
  mixed(1, 200, 1),
  mixed(20, 10, 2),
  mixed(1, 2, 2),
  mixed(1, 10, 3),
  mixed(1, 50, 3),
  mixed(1, 100, 3),
  mixed(1, 200, 3),
  mixed(1, 10, 10),
  mixed(1, 50, 50),
  mixed(1, 100, 100),
  { ...mixed(1, 50, 3), hear: 'pcm' },
  mixed(20, 5, 2),
  // As many senders at one moment as a core can serve: the event loop must not be late for it.
  { ...mixed(250, 2, 1), isInStep: true },
  mixed(50, 2, 0),
];

/** Scenarios whose speakers pause between their words. */
export const PAUSING: Scenario[] = [
  { ...mixed(1, 50, 3), hasPauses: true },
  { ...mixed(20, 5, 2), hasPauses: true },
];

/** Scenario with as many silent peers as the plan of the demo account allows. */
export const CROWD: Scenario = mixed(100, 5, 0);

/** Returns the name of a scenario in the table. */
export const nameOf = ({ rooms, peers, speakers, isInStep }: Scenario) =>
  `${rooms} × ${peers} × ${speakers}${isInStep ? ', in step' : ''}`;

/** Returns true if every frame that is heard is a packet as it was sent, so that nothing is decoded for it. */
export function isPassThrough({ peers, speakers, delivery, hear, hasPauses }: Scenario): boolean {
  if (speakers === 0 || hear === 'pcm' || hasPauses) return false;
  return delivery === 'forward' || speakers === 1 || peers === 2;
}

/**
 * Returns for each speaker the peers that get its packets when nothing is mixed. If the gateway mixes, the
 * floor, which cannot, gives each listener one speaker's packets: as many frames as the mix would be.
 */
export function hearers(scenario: Scenario): number[][] {
  const { peers, speakers, delivery } = scenario;
  const isHeard = (speaker: number, peer: number) => {
    if (speaker === peer) return false;
    return delivery === 'forward' || speaker === (peer === 0 ? 1 : 0);
  };
  const everybody = Array.from({ length: peers }, (_, peer) => peer);
  return Array.from({ length: speakers }, (_, speaker) =>
    everybody.filter((peer) => isHeard(speaker, peer)),
  );
}
