/** What is measured: so many rooms, so many peers in each, so many of whom speak. */
export type Scenario = {
  rooms: number;
  /** In each room. */
  peers: number;
  /** Of the peers of each room; they speak all the time. */
  speakers: number;
  delivery: 'mix' | 'forward';
};

export const TABLE: Scenario[] = [
  { rooms: 20, peers: 10, speakers: 1, delivery: 'mix' },
  { rooms: 20, peers: 10, speakers: 1, delivery: 'forward' },
  { rooms: 1, peers: 200, speakers: 1, delivery: 'mix' },
  { rooms: 20, peers: 10, speakers: 2, delivery: 'mix' },
  { rooms: 1, peers: 50, speakers: 3, delivery: 'mix' },
  { rooms: 50, peers: 2, speakers: 0, delivery: 'mix' },
];

/** True where every frame that is heard is a packet that somebody sent, so that nothing is decoded for it. */
export function isPassThrough({ speakers, delivery }: Scenario): boolean {
  return speakers > 0 && (delivery === 'forward' || speakers === 1);
}

/**
 * Whose packets go to whom when nothing is mixed: for each speaker the peers who get them. Where the gateway mixes, the
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
