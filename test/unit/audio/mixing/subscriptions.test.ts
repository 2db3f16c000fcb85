import { describe, expect, test } from 'vitest';
import { quantizeGain } from '../../../../src/audio/gain.ts';
import { type Listener, planSubscriptions } from '../../../../src/audio/mixing/subscriptions.ts';

describe('quantizeGain()', () => {
  test.each([
    [0, 0],
    [1, 1],
    [0.99, 1],
    [1.05, 1],
    [0.5, 10 ** (-6 / 20)],
    [4, 10 ** (12 / 20)],
    [1e-9, 0],
    [Number.MIN_VALUE, 0],
  ])('%f is applied as %f', (gain, applied) => {
    expect(quantizeGain(gain)).toBeCloseTo(applied, 12);
  });

  test('all gains from 0 to 4 come down to few, and none is off by more than half a step', () => {
    const gains = Array.from({ length: 4001 }, (_, i) => i / 1000);
    expect(new Set(gains.map(quantizeGain)).size).toBeLessThanOrEqual(74);
    for (const gain of gains.filter((each) => each >= 0.002)) {
      expect(Math.abs(20 * Math.log10(quantizeGain(gain) / gain))).toBeLessThanOrEqual(0.5001);
    }
  });
});

describe('planSubscriptions()', () => {
  const speakers = ['ann', 'ben', 'eve'].map((peer, id) => ({
    id,
    peer,
    number: id,
    isLong: false,
    needsMix: false,
    isPlayed: false,
    followers: new Set<Listener>(),
    apartFollowers: new Set<Listener>(),
    isNew: false,
  }));
  const scene = {
    mixed: speakers,
    pausing: [],
    open: new Set(speakers),
    begun: new Set<Listener>(),
    changes: new Map(),
  };
  const listener = (peer: string, volume: Listener['volume']): Listener => ({
    peer,
    volume,
    format: { codec: 'opus' },
    delivery: 'mix',
    deliver: () => {},
    concealed: () => {},
  });

  test('a listener to one speaker hears nobody else, however many there are', () => {
    const listeners = Array.from({ length: 30 }, (_, i) => ({
      ...listener(`one ${i}`, {}),
      only: speakers[i % 3]!.peer,
    }));
    const closed = { ...scene, open: new Set<(typeof speakers)[number]>() };
    const asSent = planSubscriptions(listeners, scene);
    expect([...asSent.asSent].map(([{ peer }, { size }]) => [peer, size])).toEqual([
      ['ann', 10],
      ['ben', 10],
      ['eve', 10],
    ]);
    const mixed = planSubscriptions(listeners, closed);
    expect(mixed.limited).toEqual([]);
    expect([...mixed.mixes.values()].map(({ planned }) => planned.without)).toEqual([
      [1, 2],
      [0, 2],
      [0, 1],
    ]);
  });

  test('long packets go to nobody who takes short ones only', () => {
    const [ann] = speakers;
    const long = { ...ann!, isLong: true };
    const takesAll = listener('all', {});
    const takesShort = { ...listener('short', {}), takesShortOnly: true };
    const talking = { ...scene, mixed: [long], open: new Set([long]) };
    expect(planSubscriptions([takesAll], talking).asSent.get(long)).toEqual(new Set([takesAll]));
    const short = planSubscriptions([takesShort], talking);
    expect(
      [...short.mixes.values()].flatMap(({ ears }) => [...ears.values()].flat()),
    ).toMatchObject([{ listener: { peer: 'short' }, awaits: undefined }]);
    const pause = { ...scene, mixed: [], pausing: [long], open: new Set<typeof long>() };
    expect([...(planSubscriptions([takesAll, takesShort], pause).asSent.get(long) ?? [])]).toEqual([
      takesAll,
    ]);
  });

  test('long packets are not sent beside a mix of them, which who leaves one for would hear again', () => {
    const [ann] = speakers;
    const long = { ...ann!, isLong: true };
    const asSamples: Listener = {
      ...listener('samples', {}),
      format: { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 },
    };
    const talking = { ...scene, mixed: [long], open: new Set([long]) };
    const plan = planSubscriptions([listener('opus', {}), asSamples], talking);
    expect(plan.asSent.size).toBe(0);
    expect([...plan.mixes.keys()]).toEqual([' ']);
  });

  test('listeners that want the same share a mix; of others at most 20 have one of their own', () => {
    const plain = Array.from({ length: 30 }, (_, i) => listener(`plain ${i}`, { nobody: 2 }));
    const alike = Array.from({ length: 30 }, (_, i) => listener(`alike ${i}`, { ann: 0.5 }));
    const own = Array.from({ length: 30 }, (_, i) =>
      listener(`own ${i}`, { ann: (i + 2) / 51, ben: i % 2 }),
    );
    const talking = speakers.map(({ peer }) => listener(peer, {}));
    const plan = planSubscriptions([...plain, ...alike, ...own, ...talking], scene);
    // Shared by all; without each of the speakers; 20 of their own, of which those that are alike
    // have one.
    expect(plan.mixes.size).toBe(1 + 3 + 20);
    expect(plan.limited).toEqual(own.slice(19));
    const heardBy = [...plan.mixes.values()].flatMap(({ ears }) => [...ears.values()].flat());
    expect(heardBy).toHaveLength(93);
    const shared = plan.mixes.get(' ');
    expect(shared?.planned.gains).toEqual([]);
    const sharedBy = [...(shared?.ears.values() ?? [])].flat().map((ear) => ear.listener);
    expect(sharedBy).toEqual([...plain, ...own.slice(19)]);
  });

  test('a listener that hears each speaker apart is not sent those whose volume is 0', () => {
    const apart: Listener = { ...listener('x', { ben: 0, eve: 0.5 }), delivery: 'forward' };
    const plan = planSubscriptions([apart], { ...scene, pausing: [speakers[1]!] });
    expect([...plan.apart.keys()].map(({ peer }) => peer)).toEqual(['ann', 'eve']);
    expect(plan.mixes.size).toBe(0);
  });

  test('a speaker whose network is lossy is heard in a mix, which nobody who hears it awaits the end of', () => {
    const lossy = speakers.map((speaker) => ({ ...speaker, needsMix: speaker.peer === 'ben' }));
    const lossyScene = { ...scene, mixed: lossy, open: new Set(lossy) };
    const alone = listener('x', { ann: 0, eve: 0 });
    const apart: Listener = { ...listener('y', {}), delivery: 'forward' };
    const plan = planSubscriptions([alone, apart], lossyScene);
    expect(plan.asSent.size).toBe(0);
    expect([...plan.apart.keys()].map(({ peer }) => peer)).toEqual(['ann', 'eve']);
    const ears = [...plan.mixes.values()].flatMap((mix) => [...mix.ears.values()].flat());
    expect(ears).toEqual([
      { listener: alone, number: undefined, awaits: undefined },
      { listener: apart, number: 1, awaits: undefined },
    ]);
  });

  test('no listener is limited while only one of the speakers is to be heard as sent', () => {
    const listeners = Array.from({ length: 30 }, (_, i) => listener(`l ${i}`, { ben: 0, eve: 0 }));
    const plan = planSubscriptions(listeners, scene);
    expect(plan.limited).toEqual([]);
    expect(plan.asSent.get(speakers[0]!)).toEqual(new Set(listeners));
  });
});
