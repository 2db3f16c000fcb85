import { describe, expect, test } from 'vitest';
import { readOffer } from '../../../src/whip/offer.ts';
import { describeInput, usedExtensions } from '../../../src/whip/rtp-parameters.ts';
import { recordedOffer } from '../../support/offers.ts';

const CHROMIUM = recordedOffer('chromium-whip');

describe('the description of a client for others', () => {
  test.each(['\u0000evr', 'a b evr'])(
    'CNAME %j, which browsers cannot take, is left out',
    (cname) => {
      const offer = readOffer(CHROMIUM.replace('cname:evr', `cname:${cname}`), 'whip');
      expect(offer.cname).toBeUndefined();
      expect(describeInput(offer)).not.toHaveProperty('rtcp');
    },
  );

  test('two header extensions under one id are one', () => {
    const text = CHROMIUM.replace('a=extmap:4 urn', 'a=extmap:1 urn');
    expect(usedExtensions(readOffer(text, 'whip'))).toEqual([
      { uri: 'urn:ietf:params:rtp-hdrext:sdes:mid', id: 1 },
    ]);
  });
});
