import type { RoomLinkEvents } from '../../src/cluster/room-link.ts';

/** Events of a room link that does nothing about other nodes. */
export const ignoredRoomEvents = (): RoomLinkEvents => ({
  onPeers: () => {},
  onProducer: async () => {},
  onProducerClosed: () => {},
  onShared: () => {},
  onRelayed: () => {},
});
