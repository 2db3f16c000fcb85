import * as fc from 'fast-check';
import { parse, write } from 'sdp-transform';
import { describe, expect, test } from 'vitest';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { writeAnswer, writeRestart } from '../../../src/whip/answer.ts';
import { type Offer, readOffer, type WhipKind } from '../../../src/whip/offer.ts';
import { describeInput, usedExtensions } from '../../../src/whip/rtp-parameters.ts';
import { faultOf, GATEWAY_END, recordedOffer, toldOr } from '../../support/offers.ts';

const kindOf = (name: string): WhipKind => (name.endsWith('whep') ? 'whep' : 'whip');

const RECORDED = [
  ['chromium-whip', 111],
  ['chromium-whep', 111],
  ['firefox-whep', 109],
  ['aiortc-whip', 96],
  ['aiortc-whep', 96],
  ['gstreamer-whip', 97],
  ['obs-whip', 111],
  ['ffmpeg-whip', 111],
] as const;

const CHROMIUM = recordedOffer('chromium-whip');
const PLAYER = recordedOffer('chromium-whep');
const SENT = { ssrc: 4711, cname: 'gateway' };

function answerTo(offer: Offer, kind: WhipKind) {
  const extensions = kind === 'whip' ? usedExtensions(offer) : [];
  const text = writeAnswer(
    offer,
    kind,
    GATEWAY_END,
    extensions,
    kind === 'whep' ? SENT : undefined,
  );
  const session = parse(text);
  return { text, session, audio: session.media[offer.audio]! };
}

describe('recorded offers', () => {
  test.each(RECORDED)('the offer of %s is read: payload type %i', (name, payloadType) => {
    const offer = readOffer(recordedOffer(name), kindOf(name));
    expect(offer.opus.payloadType).toBe(payloadType);
    expect(offer.dtls.role).toBe(name === 'ffmpeg-whip' ? 'server' : 'client');
    expect(offer.dtls.fingerprints[0]?.value.split(':')).toHaveLength(32);
    expect(offer.ice.ufrag.length).toBeGreaterThanOrEqual(4);
    expect(offer.ssrc !== undefined || kindOf(name) === 'whep').toBe(true);
  });

  test.each(RECORDED)('the offer of %s is read with bare line feeds, too', (name) => {
    const text = recordedOffer(name);
    const { session: _session, ...offer } = readOffer(text, kindOf(name));
    const bare = readOffer(text.replaceAll('\r\n', '\n'), kindOf(name));
    expect(bare).toMatchObject(offer);
  });

  test.each(RECORDED)(
    'the answer to %s has a section for each of the offer',
    (name, payloadType) => {
      const kind = kindOf(name);
      const offer = readOffer(recordedOffer(name), kind);
      const { session, audio } = answerTo(offer, kind);
      expect(session.icelite).toBe('ice-lite');
      expect(session.media.map(({ type, mid }) => [type, mid])).toEqual(
        offer.session.media.map(({ type, mid }) => [type, mid]),
      );
      expect(audio).toMatchObject({
        port: 9,
        direction: kind === 'whip' ? 'recvonly' : 'sendonly',
        setup: name === 'ffmpeg-whip' ? 'active' : 'passive',
        rtcpMux: 'rtcp-mux',
        iceUfrag: 'serverufrag00000',
        fingerprint: { type: 'sha-256' },
        endOfCandidates: 'end-of-candidates',
      });
      expect(audio.rtp).toEqual([
        { payload: payloadType, codec: 'opus', rate: 48_000, encoding: 2 },
      ]);
      expect(audio.payloads).toBe(payloadType);
      const candidates = audio.candidates?.map(({ foundation, transport, tcptype }) => {
        return [foundation, transport, tcptype];
      });
      expect(candidates).toEqual([
        [1, 'udp', undefined],
        [2, 'tcp', 'passive'],
      ]);
    },
  );

  test.each(RECORDED)('the answer to %s uses no header extension that was not offered', (name) => {
    const kind = kindOf(name);
    const offer = readOffer(recordedOffer(name), kind);
    const offered = offer.extensions.map(({ uri, id }) => `${id} ${uri}`);
    const { ext = [] } = answerTo(offer, kind).audio;
    for (const { uri, value } of ext) expect(offered).toContain(`${value} ${uri}`);
    expect(kind === 'whip' || ext.length === 0).toBe(true);
  });

  test('the video of an offer is rejected, and leaves the bundle', () => {
    const offer = readOffer(recordedOffer('obs-whip'), 'whip');
    const { session } = answerTo(offer, 'whip');
    expect(session.media[1]).toMatchObject({ type: 'video', port: 0 });
    expect(session.groups).toEqual([{ type: 'BUNDLE', mids: 0 }]);
  });

  test('a video on which the bundle hangs stays, inactive', () => {
    const offer = readOffer(recordedOffer('gstreamer-whip'), 'whip');
    const { session } = answerTo(offer, 'whip');
    expect(session.media[0]).toMatchObject({ type: 'video', port: 9, direction: 'inactive' });
    expect(session.groups).toEqual([{ type: 'BUNDLE', mids: 'video0 audio1' }]);
  });

  test('the streams of a player are announced', () => {
    const { audio } = answerTo(readOffer(PLAYER, 'whep'), 'whep');
    expect(audio.ssrcs).toEqual([{ id: 4711, attribute: 'cname', value: 'gateway' }]);
    expect(audio.msid).toBeDefined();
  });

  test('the packets of a client are told by its SSRC, and by its mid where it sends that', () => {
    expect(describeInput(readOffer(CHROMIUM, 'whip'))).toMatchObject({
      mid: '0',
      codecs: [{ mimeType: 'audio/opus', payloadType: 111, channels: 2 }],
      encodings: [{ ssrc: 226_971_496 }],
    });
    expect(describeInput(readOffer(recordedOffer('obs-whip'), 'whip'))).not.toHaveProperty('mid');
    const unnamed = CHROMIUM.replaceAll(/a=ssrc:.*\r\n/g, '');
    expect(describeInput(readOffer(unnamed, 'whip'))).toMatchObject({ mid: '0', encodings: [{}] });
  });

  test('a restart is answered with a fragment that has all candidates', () => {
    const text = writeRestart(readOffer(CHROMIUM, 'whip'), GATEWAY_END);
    expect(text.split('\r\n')).toEqual([
      'a=ice-lite',
      'a=ice-options:trickle',
      'a=group:BUNDLE 0',
      'm=audio 9 UDP/TLS/RTP/SAVPF 111',
      'a=mid:0',
      'a=ice-ufrag:serverufrag00000',
      'a=ice-pwd:serverpassword000000000000000000',
      'a=candidate:1 1 udp 1076302079 203.0.113.7 40000 typ host',
      'a=candidate:2 1 tcp 1076276479 203.0.113.7 40000 typ host tcptype passive',
      'a=end-of-candidates',
      '',
    ]);
  });
});

describe('the offer is honoured', () => {
  test.each([
    ['RED offered first', 'SAVPF 111 63', 'SAVPF 63 111', 111],
    [
      'several lines of Opus',
      'SAVPF 111 63',
      'SAVPF 115 111 63',
      115,
      'a=rtpmap:115 opus/48000/2\r\n',
    ],
    [
      'Opus of one channel, which there is not',
      'SAVPF 111',
      'SAVPF 115 111',
      111,
      'a=rtpmap:115 opus/48000/1\r\n',
    ],
    [
      'a payload type that RTCP takes',
      'SAVPF 111',
      'SAVPF 72 111',
      111,
      'a=rtpmap:72 opus/48000/2\r\n',
    ],
  ])('%s', (_name, line, preferred, payloadType, more = '') => {
    const text = PLAYER.replace(line, preferred).replace('a=rtpmap:111', `${more}a=rtpmap:111`);
    expect(readOffer(text, 'whep').opus.payloadType).toBe(payloadType);
  });

  test.each([0, 35, 63, 96, 127])('payload type %i', (payloadType) => {
    const text = PLAYER.replace('SAVPF 111 63 9 0', `SAVPF ${payloadType} 9`)
      .replaceAll('a=rtpmap:0 PCMU/8000\r\n', '')
      .replaceAll(/a=(rtpmap|fmtp):(63|35|96|127).*\r\n/g, '')
      .replaceAll(':111 ', `:${payloadType} `);
    const { audio } = answerTo(readOffer(text, 'whep'), 'whep');
    expect(audio.rtp[0]).toMatchObject({ payload: payloadType, codec: 'opus' });
  });

  test('stereo and usedtx are kept to in the answer', () => {
    const text = PLAYER.replace('useinbandfec=1', 'useinbandfec=1;stereo=1; usedtx=1');
    const offer = readOffer(text, 'whep');
    expect(offer.opus.parameters.get('usedtx')).toBe(1);
    const config = answerTo(offer, 'whep').audio.fmtp[0]?.config;
    expect(config).toBe('minptime=10;useinbandfec=1;stereo=1;usedtx=1');
  });

  test.each([
    ['a=maxptime:60', 60],
    ['a=maxptime:20', 20],
    ['a=ptime:20', undefined],
  ])('%s', (line, expected) => {
    const text = PLAYER.replace('a=rtcp-rsize', `${line}\r\na=rtcp-rsize`);
    expect(readOffer(text, 'whep').maxPacketMs).toBe(expected);
  });

  test('rtcp-mux-only is said again where it was offered', () => {
    const text = PLAYER.replace('a=rtcp-mux', 'a=rtcp-mux\r\na=rtcp-mux-only');
    expect(answerTo(readOffer(text, 'whep'), 'whep').text).toContain('a=rtcp-mux-only\r\n');
    expect(answerTo(readOffer(PLAYER, 'whep'), 'whep').text).not.toContain('rtcp-mux-only');
  });

  test('ICE credentials of digits alone are text', () => {
    const text = PLAYER.replaceAll('ice-ufrag:gYiA', 'ice-ufrag:1234');
    expect(readOffer(text, 'whep').ice.ufrag).toBe('1234');
  });

  test('credentials and fingerprint may stand in the section that carries the bundle', () => {
    const text = recordedOffer('gstreamer-whip');
    const at = text.indexOf('m=audio');
    const bare = text.slice(at).replaceAll(/a=(ice-ufrag|ice-pwd|fingerprint|setup):.*\r\n/g, '');
    const { ice } = readOffer(text.slice(0, at) + bare, 'whip');
    expect(ice.ufrag).toBe('o4vN+eXt2JfyT+pFAFSFHp5vkEKJ2BZB');
  });
});

describe('bad offers', () => {
  const without = (pattern: RegExp) => CHROMIUM.replaceAll(pattern, '');
  test.each([
    ['nothing', ''],
    ['text', 'hello'],
    ['JSON', '{"sdp":"v=0"}'],
    ['another version', CHROMIUM.replace('v=0', 'v=1')],
    ['no origin', without(/o=.*\r\n/g)],
    ['a line that is none', CHROMIUM.replace('a=setup', 'setup')],
    ['a media line without formats', 'v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nm=audio 9\r\n'],
    ['a line without end', `${CHROMIUM}a=x:${'y'.repeat(10_000)}\r\n`],
    ['lines without end', CHROMIUM + 'a=x\r\n'.repeat(1000)],
  ])('%s is not SDP: 400', (_name, text) => {
    expect(faultOf(() => readOffer(text, 'whip')).kind.status).toBe(400);
  });

  test.each([
    ['no audio', CHROMIUM.replace('m=audio', 'm=text')],
    ['rejected audio', CHROMIUM.replace('m=audio 9', 'm=audio 0')],
    ['no Opus', CHROMIUM.replace('opus/48000/2', 'speex/32000')],
    ['no fingerprint', without(/a=fingerprint:.*\r\n/g)],
    ['half a fingerprint', CHROMIUM.replace(/(a=fingerprint:sha-256 84:1B).*/, '$1')],
    ['an unknown hash', CHROMIUM.replace('sha-256', 'md5')],
    ['no ice-ufrag', without(/a=ice-ufrag:.*\r\n/g)],
    ['no ice-pwd', without(/a=ice-pwd:.*\r\n/g)],
    ['a short ice-pwd', CHROMIUM.replace(/a=ice-pwd:.*/, 'a=ice-pwd:short\r')],
    ['no rtcp-mux', without(/a=rtcp-mux\r\n/g)],
    ['recvonly to WHIP', CHROMIUM.replace('a=sendonly', 'a=recvonly')],
    ['inactive', CHROMIUM.replace('a=sendonly', 'a=inactive')],
    ['setup:holdconn', CHROMIUM.replace('setup:actpass', 'setup:holdconn')],
    ['ice-lite', CHROMIUM.replace('t=0 0', 't=0 0\r\na=ice-lite')],
    ['plain RTP', CHROMIUM.replace('UDP/TLS/RTP/SAVPF', 'RTP/AVP')],
    [
      'two audios',
      CHROMIUM + CHROMIUM.slice(CHROMIUM.indexOf('m=audio')).replace('mid:0', 'mid:1'),
    ],
    ['a mid that is no token', CHROMIUM.replace('a=mid:0', 'a=mid:"<x>"')],
    ['sections without end', CHROMIUM + 'm=video 0 UDP/TLS/RTP/SAVPF 96\r\n'.repeat(20)],
  ])('%s cannot be answered: 422', (_name, text) => {
    expect(faultOf(() => readOffer(text, 'whip')).kind.status).toBe(422);
  });

  test('packets of less than 20 ms are too short for a player: 422', () => {
    const short = (text: string) => text.replace('a=rtcp-rsize', 'a=maxptime:10\r\na=rtcp-rsize');
    expect(faultOf(() => readOffer(short(PLAYER), 'whep')).kind.status).toBe(422);
    // It is said of what a client receives: one that only sends receives nothing.
    expect(readOffer(short(CHROMIUM), 'whip').maxPacketMs).toBeUndefined();
  });

  test('of several codecs of one payload type the first counts', () => {
    const line = 'a=rtpmap:111 opus/48000/2\r\n';
    const after = CHROMIUM.replace(line, `${line}a=rtpmap:111 speex/16000\r\n`);
    expect(readOffer(after, 'whip').opus.payloadType).toBe(111);
    const before = CHROMIUM.replace(line, `a=rtpmap:111 speex/16000\r\n${line}`);
    expect(faultOf(() => readOffer(before, 'whip')).kind.status).toBe(422);
  });

  test('sendonly to WHEP cannot be answered: 422', () => {
    expect(faultOf(() => readOffer(CHROMIUM, 'whep')).kind.status).toBe(422);
  });

  test('packets that nothing tells from others: 422', () => {
    const text = without(/a=(ssrc|extmap):.*\r\n/g);
    expect(faultOf(() => describeInput(readOffer(text, 'whip'))).kind.status).toBe(422);
  });
});

describe('hostile offers', () => {
  fc.configureGlobal({ seed: 20_261_122, numRuns: 500 });
  const lines = RECORDED.flatMap(([name]) => recordedOffer(name).trimEnd().split('\r\n'));
  const line = fc.oneof(
    fc.constantFrom(...lines),
    fc.string({ maxLength: 40 }),
    fc.constantFrom(
      'a=fmtp:111 __proto__=1;constructor=2;stereo=1',
      'a=mid:__proto__',
      'a=ssrc:99999999999999999999 cname:x',
      'a=rtpmap:111 opus/48000/2',
      'a=group:BUNDLE 0 0 0 1 __proto__',
      'm=audio 99999999 UDP/TLS/RTP/SAVPF 111 -1 1e9 NaN',
      'a=extmap:999999 urn:ietf:params:rtp-hdrext:sdes:mid',
      'a=candidate:1 1 udp 1 ::: 0 typ host',
      `a=ice-ufrag:${'%s'.repeat(100)}`,
      'a=fmtp:111 usedtx=%s%d%v;stereo=1e308',
    ),
  );

  test('any lines end in an answer or in a fault that is told', () => {
    const texts = fc.tuple(
      fc.constantFrom(...RECORDED.map(([name]) => name)),
      fc.array(fc.tuple(fc.nat(60), line), { maxLength: 12 }),
      fc.boolean(),
    );
    let answered = 0;
    fc.assert(
      fc.property(texts, ([name, edits, isReplaced]) => {
        const text = recordedOffer(name).trimEnd().split('\r\n');
        for (const [at, edit] of edits) text.splice(at % text.length, isReplaced ? 1 : 0, edit);
        const kind = kindOf(name);
        const offer = toldOr(() => {
          const read = readOffer(`${text.join('\r\n')}\r\n`, kind);
          if (kind === 'whip') describeInput(read);
          return read;
        });
        if (!offer) return;
        answered += 1;
        const { text: written, session } = answerTo(offer, kind);
        expect(session.media).toHaveLength(offer.session.media.length);
        // Nothing that was in it has become a line of its own.
        expect(write(parse(written))).toBe(written);
      }),
    );
    expect(answered).toBeGreaterThan(20);
  });

  test('any text is read in a moment', () => {
    const startedMs = performance.now();
    const attacks = [
      `a=simulcast:${'send 1;'.repeat(500)}`,
      `a=imageattr:97 send ${'[x=1,y=1] '.repeat(350)}`,
      `a=source-filter: incl IN ${'* '.repeat(1500)}`,
      `a=floorid:${' m-stream'.repeat(400)}`,
      `a=simulcast:\t${'\t'.repeat(3000)}!`,
      `a=candidate:${'1 '.repeat(1800)}`,
      `a=mediaclk:id=${' '.repeat(3500)}`,
    ];
    for (const attack of attacks) {
      const text = CHROMIUM + `${attack}\r\n`.repeat(Math.floor(60_000 / attack.length));
      faultOf(() => {
        readOffer(text, 'whip');
        throw new PartylineError('not_found', 'It was read.');
      });
    }
    expect(performance.now() - startedMs).toBeLessThan(5000);
  });
});
