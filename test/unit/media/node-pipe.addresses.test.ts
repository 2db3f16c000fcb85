import { expect, test } from 'vitest';
import type { IpFamily } from '../../../config/listen-addresses.ts';
import { addressFor } from '../../../src/media/node-pipe.ts';

const V4 = { ip: '10.0.0.5' };
const V6 = { ip: 'fd00::5' };
const portRange = { min: 20_000, max: 29_999 };

test.each<[IpFamily[] | undefined, object[], object]>([
  [['ipv4', 'ipv6'], [V6, V4], V4],
  [['ipv6'], [V4, V6], V6],
  [['ipv4'], [V6, V4], V4],
  [undefined, [V6], V6],
  [['ipv6'], [{ ip: '10.0.0.5', announced: 'fd00::9' }], { ip: '10.0.0.5', announced: 'fd00::9' }],
])('to a node of %j, from %j: by %j', (families, addresses, chosen) => {
  const own = addresses as { ip: string }[];
  expect(addressFor({ addresses: own, portRange }, families)).toEqual(chosen);
});

test('nodes without a family in common have no pipe', () => {
  expect(addressFor({ addresses: [V4], portRange }, ['ipv6'])).toBeUndefined();
});
