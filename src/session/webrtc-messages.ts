import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import type { ClientMessage } from '../protocol/client-messages.ts';
import type { ServerMessage } from '../protocol/messages.ts';

type WebRtcMessage = Exclude<ClientMessage, { type: 'join' | 'leave' | 'configure' }>;

/**
 * Returns true for the first request of a browser to resume a consumer that it was offered. Producers have paid for it:
 * where many browsers meet, each resumes one for each other.
 */
export const takeOffer = (browser: WebRtcPeer | undefined, message: ClientMessage): boolean =>
  message.type === 'resume_consumer' && browser?.takeOffer(message.consumer_id) === true;

/**
 * Handles the WebRTC requests of a browser in a room (docs/protocol.md §3).
 * @returns the answer
 * @throws {PartylineError} `bad_message`
 */
export async function handleWebRtcMessage(
  peer: WebRtcPeer,
  message: WebRtcMessage,
): Promise<ServerMessage> {
  switch (message.type) {
    case 'connect_transport': {
      await peer.connect(message.transport_id, message.dtls_parameters);
      return { type: 'transport_connected', transport_id: message.transport_id };
    }
    case 'produce': {
      const producerId = await peer.produce(message.transport_id, message.rtp_parameters);
      return { type: 'produced', producer_id: producerId };
    }
    case 'pause_producer': {
      await peer.pauseProducer(message.producer_id);
      return { type: 'producer_paused', producer_id: message.producer_id };
    }
    case 'resume_producer': {
      await peer.resumeProducer(message.producer_id);
      return { type: 'producer_resumed', producer_id: message.producer_id };
    }
    case 'resume_consumer': {
      await peer.resumeConsumer(message.consumer_id);
      return { type: 'consumer_resumed', consumer_id: message.consumer_id };
    }
    case 'restart_ice': {
      const restarted = await peer.restartIce(message.transport_id);
      return { type: 'ice_restarted', transport_id: message.transport_id, ...restarted };
    }
  }
}
