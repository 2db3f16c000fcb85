import type { TransportListenInfo } from 'mediasoup/types';

export const LOOPBACK = '127.0.0.1';

/**
 * Size of socket buffers, bytes: room for half a second of a hundred speakers, should either process be held up. The kernel
 * grants no more than `net.core.rmem_max` (docs/operations/install.md); its default, 212,992, is room for a tenth of a second.
 */
const SOCKET_BUFFER_BYTES = 1 << 20;
export const SOCKET_BUFFERS = {
  recvBufferSize: SOCKET_BUFFER_BYTES,
  sendBufferSize: SOCKET_BUFFER_BYTES,
};

const PORT_RANGE = { min: 10_000, max: 19_999 };
/** Number of rooms that this machine has ports for. */
export const LOOPBACK_PORTS = PORT_RANGE.max - PORT_RANGE.min + 1;

/**
 * Address at which a media worker receives RTP from this machine. Its ports are below the kernel's ephemeral range, where the
 * ports of WebRtcServers could be taken by chance, and below those of pipes to other nodes.
 */
export const LOOPBACK_LISTEN_INFO: TransportListenInfo = {
  protocol: 'udp',
  ip: LOOPBACK,
  portRange: PORT_RANGE,
  ...SOCKET_BUFFERS,
};
