import { once } from 'node:events';
import { createConnection } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { ownAddresses } from '../../config/listen-addresses.ts';
import { freeRtcPort } from '../support/gateway.ts';
import type { TestClient } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { connect } = useGateway();
const { openGateway, enter } = useStack();

const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };

describe('WebRTC signaling', () => {
  const joinWebRtc = async (peer = 'alice') => {
    const client = await connect({ peer });
    const joined = await client.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    if (!joined.webrtc) throw new Error('no webrtc in joined');
    return { client, webrtc: joined.webrtc };
  };

  test('join with media webrtc describes the router and two transports', async () => {
    const { webrtc } = await joinWebRtc();
    expect(webrtc.router_rtp_capabilities.codecs?.[0]).toMatchObject({ mimeType: 'audio/opus' });
    for (const transport of [webrtc.send_transport, webrtc.recv_transport]) {
      const protocols = transport.ice_candidates.map(({ protocol }) => protocol);
      expect(new Set(protocols)).toEqual(new Set(['udp', 'tcp']));
      expect([protocols[0], protocols.at(-1)]).toEqual(['udp', 'tcp']);
      expect(transport.dtls_parameters.fingerprints.length).toBeGreaterThan(0);
    }
  });

  test.each([
    [
      'connect_transport of an unknown transport',
      { type: 'connect_transport', transport_id: 'x', dtls_parameters: {} },
    ],
    [
      'produce on an unknown transport',
      { type: 'produce', transport_id: 'x', kind: 'audio', rtp_parameters: {} },
    ],
    ['resume_consumer of an unknown consumer', { type: 'resume_consumer', consumer_id: 'x' }],
    ['pause_producer of an unknown producer', { type: 'pause_producer', producer_id: 'x' }],
    ['restart_ice of an unknown transport', { type: 'restart_ice', transport_id: 'x' }],
  ])('%s is refused, and the peer stays in the room', async (_name, message) => {
    const { client } = await joinWebRtc();
    const error = await client.ask({ ...message, id: '9' }, 'error');
    expect(error).toMatchObject({ code: 'bad_message', reply_to: '9' });
    expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
  });

  test('parameters that mediasoup refuses are the client’s fault, not ours', async () => {
    const { client, webrtc } = await joinWebRtc();
    const transportId = webrtc.send_transport.id;
    const wrong = [
      {
        type: 'connect_transport',
        transport_id: transportId,
        dtls_parameters: { fingerprints: 7 },
      },
      {
        type: 'produce',
        transport_id: transportId,
        kind: 'audio',
        rtp_parameters: { codecs: 'x' },
      },
    ];
    for (const message of wrong) {
      expect(await client.ask(message, 'error')).toMatchObject({ code: 'bad_message' });
    }
  });

  test('produce a second time, or on the receive transport, is refused, and the producer stays', async () => {
    const { client: other } = await joinWebRtc('other');
    const { client, webrtc } = await joinWebRtc();
    const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc: 1 }] };
    const produceOn = ({ id }: { id: string }) => ({
      type: 'produce',
      kind: 'audio',
      transport_id: id,
      rtp_parameters,
    });
    const misplaced = await client.ask(produceOn(webrtc.recv_transport), 'error');
    expect(misplaced).toMatchObject({ code: 'bad_message' });
    const { producer_id } = await client.ask(produceOn(webrtc.send_transport), 'produced');
    const second = {
      ...produceOn(webrtc.send_transport),
      rtp_parameters: { ...rtp_parameters, encodings: [{ ssrc: 2 }] },
    };
    expect(await client.ask(second, 'error')).toMatchObject({ code: 'bad_message' });
    await client.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
    await client.ask({ type: 'resume_producer', producer_id }, 'producer_resumed');
    expect(await other.next('new_consumer')).toMatchObject({ producer_id });
    // Messages come in order, so all that came before this answer are there.
    await other.ask({ type: 'leave' }, 'left');
    expect(other.messages.filter(({ type }) => type === 'new_consumer')).toHaveLength(1);
  });

  test('connect_transport a second time is refused', async () => {
    const { client, webrtc } = await joinWebRtc();
    const { id, dtls_parameters } = webrtc.send_transport;
    const connecting = {
      type: 'connect_transport',
      transport_id: id,
      dtls_parameters: { ...dtls_parameters, role: 'client' },
    };
    await client.ask(connecting, 'transport_connected');
    expect(await client.ask(connecting, 'error')).toMatchObject({ code: 'bad_message' });
    await client.ask({ type: 'leave' }, 'left');
  });

  test.each([
    ['a line break in its cname', { rtcp: { cname: 'a\r\nm=garbage' } }],
    ['a cname without end', { rtcp: { cname: 'x'.repeat(60_000) } }],
    [
      'a line break in a codec parameter',
      { codecs: [{ ...OPUS, parameters: { foo: '1\r\na=b' } }] },
    ],
    ['a line break in its name', { codecs: [{ ...OPUS, parameters: { 'a\r\nb': 1 } }] }],
    ['a line break in mid', { mid: '0\n' }],
    ['a line break in msid', { msid: 'a\rb' }],
    [
      'a line break in a feedback type',
      { codecs: [{ ...OPUS, rtcpFeedback: [{ type: 'a\nb' }] }] },
    ],
    ['Opus twice', { codecs: [OPUS, { ...OPUS, mimeType: 'audio/OPUS', payloadType: 112 }] }],
    ['a payload type that is none', { codecs: [{ ...OPUS, payloadType: 999 }] }],
    ['an SSRC that is none', { encodings: [{ ssrc: 2 ** 40 }] }],
    ['an extension id that is none', { headerExtensions: [{ uri: 'urn:x', id: 99_999 }] }],
  ])('produce with %s: refused, as others would be told', async (_, wrong) => {
    const { client, webrtc } = await joinWebRtc();
    const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc: 1 }], ...wrong };
    const produce = { type: 'produce', kind: 'audio', transport_id: webrtc.send_transport.id };
    const refused = await client.ask({ ...produce, rtp_parameters }, 'error');
    expect(refused).toMatchObject({ code: 'bad_message' });
    expect(refused.message).toMatch(/^produce: rtp_parameters/);
    const good = { codecs: [OPUS], encodings: [{ ssrc: 1 }], rtcp: { cname: 'a name' } };
    await client.ask({ ...produce, rtp_parameters: good }, 'produced');
  });

  test('a cname with spaces, with which browsers could not hear anybody further, is not told to others', async () => {
    const { client: other } = await joinWebRtc('other');
    const { client, webrtc } = await joinWebRtc();
    const produce = { type: 'produce', kind: 'audio', transport_id: webrtc.send_transport.id };
    const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc: 1 }], rtcp: { cname: 'a b c' } };
    await client.ask({ ...produce, rtp_parameters }, 'produced');
    const told = await other.next('new_consumer');
    expect(told.rtp_parameters.rtcp?.cname).toMatch(/^[\x21-\x7e]+$/);
  });

  test.each([
    {},
    { codecs: [] },
    { codecs: 5 },
    { codecs: [{}] },
    { codecs: [{ kind: 'audio', mimeType: 'audio/PCMU', clockRate: 8000 }] },
    { codecs: [{ ...OPUS, kind: 'audio' }], headerExtensions: 5 },
  ])('join with rtp_capabilities that can hear nobody (%j): refused', async (rtp_capabilities) => {
    const client = await connect();
    const join = { type: 'join', room: 'a', media: 'webrtc' };
    const refused = await client.ask({ ...join, rtp_capabilities }, 'error');
    expect(refused).toMatchObject({ code: 'bad_message' });
    expect(refused.message).toContain('rtp_capabilities');
    const good = { codecs: [{ ...OPUS, kind: 'audio' }] };
    await client.ask({ ...join, rtp_capabilities: good }, 'joined');
  });

  test('configure {volume} of a browser is refused: it gets each peer apart', async () => {
    const { client } = await joinWebRtc();
    const refused = await client.ask({ type: 'configure', volume: { bob: 0 } }, 'error');
    expect(refused).toMatchObject({ code: 'bad_message' });
    expect(await client.ask({ type: 'configure', mute: true }, 'configured')).toMatchObject({
      mute: true,
      volume: {},
    });
    // One that sets nothing is a question, and is answered.
    await client.ask({ type: 'configure', volume: {} }, 'configured');
  });

  test('a value that must be a string, or one of a list, is refused with the ones accepted', async () => {
    const client = await connect();
    const video = await client.ask({ type: 'join', room: 'a', media: 'video' }, 'error');
    expect(video.message).toBe('join: media must be "webrtc".');
  });

  test('a browser that does not connect to receive is given four to hear, and others as those cease', async () => {
    const { client } = await joinWebRtc();
    const speakers: TestClient[] = [];
    for (const peer of ['b', 'c', 'd', 'e', 'f', 'g']) {
      const speaker = await connect({ peer });
      const { webrtc } = await speaker.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
      const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc: 1 }] };
      const transport_id = webrtc?.send_transport.id;
      await speaker.ask(
        { type: 'produce', kind: 'audio', transport_id, rtp_parameters },
        'produced',
      );
      speakers.push(speaker);
    }
    const heard = () =>
      client.messages.flatMap((message) => (message.type === 'new_consumer' ? message.peer : []));
    // Answers come in the order in which the media worker does things.
    await speakers
      .at(-1)!
      .until(
        'its own',
        () => speakers.at(-1)!.messages.filter(({ type }) => type === 'new_consumer')[3],
      );
    expect(heard()).toEqual(['b', 'c', 'd', 'e']);
    await speakers[5]!.close();
    await speakers[1]!.close();
    await client.until('the next', () => heard()[4]);
    expect(heard()).toEqual(['b', 'c', 'd', 'e', 'f']);
    await speakers[0]!.close();
    await client.until(
      'the second to close',
      () => client.messages.filter(({ type }) => type === 'consumer_closed')[1],
    );
    expect(heard()).toHaveLength(5);
  });

  test('consumers that have ended before the browser resumes them do not close it, nor do those of a room that it leaves', async () => {
    const { client } = await joinWebRtc();
    const errors = () => client.messages.filter(({ type }) => type === 'error');
    const resumeAll = () => {
      for (let i = 0; i < 25; i += 1) {
        client.send({ type: 'resume_consumer', consumer_id: `ended ${i}`, id: i });
      }
    };
    resumeAll();
    client.send({ type: 'leave' });
    resumeAll();
    await client.until('all answers', () => errors()[49]);
    for (const error of errors()) expect(error).toMatchObject({ code: 'bad_message' });
    await client.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  });

  test('messages without a consumer_id count as bad ones', async () => {
    const { client } = await joinWebRtc();
    for (let i = 0; i < 20; i += 1) client.send({ type: 'resume_consumer' });
    expect(await client.closed).toBe(4400);
  });

  test('restart_ice gives new parameters', async () => {
    const { client, webrtc } = await joinWebRtc();
    const { id, ice_parameters: before } = webrtc.send_transport;
    const restarted = await client.ask({ type: 'restart_ice', transport_id: id }, 'ice_restarted');
    expect(restarted.ice_parameters.usernameFragment).not.toBe(before.usernameFragment);
    expect(restarted).not.toHaveProperty('ice_servers');
  });
});

test('a browser is handed the TURN servers of the operator', async () => {
  const environment = { TURN_URLS: 'turn:turn.example.com:3478', TURN_SECRET: 'a secret' };
  const gateway = await openGateway(environment);
  const browser = await enter(gateway, 'ada');
  const { webrtc } = await browser.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  for (const transport of [webrtc?.send_transport, webrtc?.recv_transport]) {
    expect(transport?.ice_servers).toMatchObject([{ urls: ['turn:turn.example.com:3478'] }]);
  }
  // Credentials are valid for a day, and calls may last longer.
  const transport_id = webrtc?.send_transport.id;
  const restarted = await browser.ask({ type: 'restart_ice', transport_id }, 'ice_restarted');
  const [server] = restarted.ice_servers ?? [];
  expect(server?.urls).toEqual(['turn:turn.example.com:3478']);
  expect(Number.parseInt(server?.username ?? '', 10) * 1000).toBeGreaterThan(Date.now());
});

test('a browser is offered loopback and every other address of this machine, TCP on loopback alone', async () => {
  const gateway = await openGateway();
  const browser = await enter(gateway, 'ada');
  const { webrtc } = await browser.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  const candidates = webrtc!.send_transport.ice_candidates;
  const offered = (protocol: string) =>
    candidates.filter((each) => each.protocol === protocol).map(({ address }) => address);
  const own = ownAddresses(networkInterfaces()).map(({ ip }) => ip);
  expect(offered('udp')).toEqual(own);
  expect(offered('tcp')).toEqual(['127.0.0.1']);
  expect(candidates[0]).toMatchObject({ protocol: 'udp', address: '127.0.0.1' });
});

test('addresses of both families are listened on, and announced as they are set', async () => {
  const RTC_LISTEN_IP = '127.0.0.1=203.0.113.7,::1=2001:db8::7';
  const gateway = await openGateway({ RTC_LISTEN_IP });
  const browser = await enter(gateway, 'ada');
  const { webrtc } = await browser.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  const candidates = webrtc!.send_transport.ice_candidates;
  const shown = candidates.map(({ protocol, address }) => `${protocol} ${address}`);
  const expected = ['udp 203.0.113.7', 'udp 2001:db8::7', 'tcp 203.0.113.7', 'tcp 2001:db8::7'];
  expect(shown).toEqual(expected);
});

test('with RTC_TCP=false a browser is offered UDP alone, and the TCP port is closed', async () => {
  const rtcPort = freeRtcPort();
  const environment = {
    RTC_LISTEN_IP: '127.0.0.1',
    RTC_TCP: 'false',
    RTC_PORT: String(rtcPort),
    MEDIA_WORKERS: '1',
  };
  const gateway = await openGateway(environment);
  const browser = await enter(gateway, 'ada');
  const { webrtc } = await browser.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  for (const transport of [webrtc?.send_transport, webrtc?.recv_transport]) {
    expect(transport?.ice_candidates).toMatchObject([{ protocol: 'udp', port: rtcPort }]);
  }
  const [fault] = (await once(createConnection(rtcPort, '127.0.0.1'), 'error')) as [Error];
  expect(fault).toMatchObject({ code: 'ECONNREFUSED' });
});
