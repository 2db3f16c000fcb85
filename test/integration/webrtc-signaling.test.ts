import { describe, expect, test } from 'vitest';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { connect } = useGateway();
const { openGateway, enter } = useStack();

describe('WebRTC signaling', () => {
  const joinWebRtc = async () => {
    const client = await connect();
    const joined = await client.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    if (!joined.webrtc) throw new Error('no webrtc in joined');
    return { client, webrtc: joined.webrtc };
  };

  test('join with media webrtc describes the router and two transports', async () => {
    const { webrtc } = await joinWebRtc();
    expect(webrtc.router_rtp_capabilities.codecs?.[0]).toMatchObject({ mimeType: 'audio/opus' });
    for (const transport of [webrtc.send_transport, webrtc.recv_transport]) {
      const protocols = transport.ice_candidates.map(({ protocol }) => protocol);
      expect(protocols).toEqual(['udp', 'tcp']);
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

  test('restart_ice gives new parameters', async () => {
    const { client, webrtc } = await joinWebRtc();
    const { id, ice_parameters: before } = webrtc.send_transport;
    const restarted = await client.ask({ type: 'restart_ice', transport_id: id }, 'ice_restarted');
    expect(restarted.ice_parameters.usernameFragment).not.toBe(before.usernameFragment);
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
});
