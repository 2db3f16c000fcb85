import { describe, expect, test } from 'vitest';
import { isRtcp, parseRtpPacket, writeRtpPacket } from '../../../src/rtp/packet.ts';

const LEVEL_ID = 1;
const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** RFC 3550 §5.1: V=2, PT 100, sequence 0x1234, timestamp 0x01020304, SSRC 0xdeadbeef. */
const BARE = '80 64 1234 01020304 deadbeef';

describe('parseRtpPacket()', () => {
  test('reads the fixed header and the payload', () => {
    expect(parseRtpPacket(hex(`${BARE} aabb`), LEVEL_ID)).toEqual({
      ssrc: 0xdeadbeef,
      sequenceNumber: 0x1234,
      timestamp: 0x01020304,
      payloadType: 100,
      marker: false,
      audioLevel: undefined,
      payload: hex('aabb'),
    });
  });

  test('reads the marker apart from the payload type', () => {
    const packet = parseRtpPacket(hex('80 e4 0001 00000001 00000001'), LEVEL_ID);
    expect(packet).toMatchObject({ marker: true, payloadType: 100 });
  });

  test.each([2, 15])('skips %i contributing sources', (count) => {
    const head = `8${count.toString(16)} 64 0001 00000001 00000001`;
    const packet = parseRtpPacket(hex(`${head} ${'11111111'.repeat(count)} cc`), LEVEL_ID);
    expect(packet?.payload).toEqual(hex('cc'));
  });

  test('cuts the padding off', () => {
    const packet = parseRtpPacket(hex('a0 64 0001 00000001 00000001 cc 00 00 03'), LEVEL_ID);
    expect(packet?.payload).toEqual(hex('cc'));
  });

  test('finds the audio level (RFC 6464) among other one-byte extensions, without its V bit', () => {
    const extensions = 'bede 0003 51 0a0b 00 10 aa 00 00 00000000';
    const packet = parseRtpPacket(hex(`90 64 0001 00000001 00000001 ${extensions} cc`), LEVEL_ID);
    expect(packet).toMatchObject({ audioLevel: 0x2a, payload: hex('cc') });
  });

  test('leaves the level undefined when the packet has none', () => {
    const packet = parseRtpPacket(hex('90 64 0001 00000001 00000001 bede 0001 20 aa 00 00 cc'), 1);
    expect(packet?.audioLevel).toBeUndefined();
  });

  test.each([
    ['nothing', ''],
    ['less than a header', '80 64 1234 01020304 dead'],
    ['version 1', '40 64 1234 01020304 deadbeef'],
    ['more contributing sources than bytes', '8f 64 1234 01020304 deadbeef 00'],
    ['an extension longer than the packet', '90 64 1234 01020304 deadbeef bede 0004 00'],
    ['more padding than payload', 'a0 64 1234 01020304 deadbeef 00 09'],
  ])('refuses %s', (_name, bytes) => {
    expect(parseRtpPacket(hex(bytes), LEVEL_ID)).toBeUndefined();
  });
});

test('writeRtpPacket() writes the bytes of RFC 3550 and RFC 8285', () => {
  const datagram = writeRtpPacket(
    {
      sequenceNumber: 0xffff,
      timestamp: 0xfffffffe,
      marker: true,
      audioLevel: 42,
      payload: hex('aabb'),
    },
    { ssrc: 0xdeadbeef, payloadType: 100, levelExtensionId: LEVEL_ID },
  );
  expect(datagram).toEqual(hex('90 e4 ffff fffffffe deadbeef bede 0001 10 2a 00 00 aabb'));
});

test('writeRtpPacket() then parseRtpPacket() gives back what was written', () => {
  const packet = {
    sequenceNumber: 65535,
    timestamp: 4294967295,
    marker: false,
    audioLevel: 127,
    payload: Buffer.from('opus'),
  };
  const stream = { ssrc: 7, payloadType: 111, levelExtensionId: 5 };
  const { levelExtensionId, ...whose } = stream;
  expect(parseRtpPacket(writeRtpPacket(packet, stream), levelExtensionId)).toEqual({
    ...packet,
    ...whose,
  });
});

test('isRtcp() tells RTCP from RTP by the packet types of RFC 5761', () => {
  expect(isRtcp(hex('80c8'))).toBe(true);
  expect(isRtcp(hex('80df'))).toBe(true);
  expect(isRtcp(hex('8064'))).toBe(false);
  expect(isRtcp(hex('80e4'))).toBe(false);
});
