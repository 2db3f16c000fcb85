import { describe, expect, test } from 'vitest';
import { binaryFrame } from '../../../src/session/binary-frame.ts';

describe('binaryFrame()', () => {
  test.each([
    [0, [0x82, 0]],
    [1, [0x82, 1]],
    [125, [0x82, 125]],
    [126, [0x82, 126, 0, 126]],
    [7680, [0x82, 126, 30, 0]],
    [65_535, [0x82, 126, 255, 255]],
    [65_536, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]],
  ])('puts the head of RFC 6455 before %i bytes', (length, head) => {
    const payload = Buffer.alloc(length, 7);
    expect(binaryFrame(payload)).toEqual(Buffer.concat([Buffer.from(head), payload]));
  });

  test('is the same for the same payload, and another for another one with the same bytes', () => {
    const [one, other] = [Buffer.from('abc'), Buffer.from('abc')];
    expect(binaryFrame(one)).toBe(binaryFrame(one));
    const before = binaryFrame(one);
    expect(binaryFrame(other)).not.toBe(before);
    expect(binaryFrame(other)).toEqual(before);
  });
});
