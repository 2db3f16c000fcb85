import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkIfMatch, readFragment } from '../../../src/whip/fragment.ts';
import { faultOf, recordedOffer, toldOr } from '../../support/offers.ts';

fc.configureGlobal({ seed: 20_261_122, numRuns: 500 });

describe('fragments', () => {
  const TRICKLE = [
    'a=group:BUNDLE 0 1',
    'm=audio 9 UDP/TLS/RTP/SAVPF 111',
    'a=mid:0',
    'a=ice-ufrag:EsAw',
    'a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1',
    'a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw',
    'a=end-of-candidates',
  ];
  const CREDENTIALS = { ufrag: 'EsAw', pwd: 'P2uYro0UCOQ4zxjKXaWCBui1' };

  test.each([
    ['the one of the RFC', TRICKLE.join('\r\n')],
    ['bare line feeds', TRICKLE.join('\n')],
    [
      'credentials for the whole session',
      [TRICKLE[3], TRICKLE[4], ...TRICKLE.slice(0, 3)].join('\n'),
    ],
  ])('%s', (_name, text) => {
    expect(readFragment(text)).toEqual({ ...CREDENTIALS, ufrags: new Set([CREDENTIALS.ufrag]) });
  });

  test('candidates alone say nothing of credentials', () => {
    expect(readFragment(TRICKLE.slice(5).join('\r\n'))).toBeUndefined();
  });

  test.each([
    ['nothing', '', 400],
    ['text', 'hello', 400],
    ['a whole description', recordedOffer('chromium-whip'), 400],
    ['lines without end', 'a=z\n'.repeat(300), 400],
    ['half of the credentials', 'a=ice-ufrag:EsAw', 422],
    ['a short password', 'a=ice-ufrag:EsAw\r\na=ice-pwd:x', 422],
  ])('%s is refused', (_name, text, status) => {
    expect(faultOf(() => readFragment(text)).kind.status).toBe(status);
  });

  test('any text ends in credentials or in a fault that is told', () => {
    const line = fc.oneof(fc.constantFrom(...TRICKLE), fc.string({ maxLength: 40 }));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), (texts) => {
        const read = toldOr(() => readFragment(texts.join('\n')));
        expect(read?.pwd.length ?? 22).toBeGreaterThanOrEqual(22);
      }),
    );
  });

  test.each([
    [undefined, 'missing'],
    ['', 'missing'],
    ['*', 'any'],
    ['"*"', 'any'],
    ['"abc"', 'met'],
    ['"x", "abc"', 'met'],
    ['abc', 'failed'],
    ['W/"abc"', 'failed'],
    ['"other"', 'failed'],
  ])('If-Match %s is %s', (header, expected) => {
    expect(checkIfMatch(header, '"abc"')).toBe(expected);
  });
});
