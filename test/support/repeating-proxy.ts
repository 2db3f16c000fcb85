import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

/** Content types of DTLS records (RFC 6347 §4.1). */
const CHANGE_CIPHER_SPEC = 20;
const HANDSHAKE = 22;
const RECORD_HEAD_BYTES = 13;

/**
 * A way over UDP to a gateway on which the first flight of each DTLS handshake comes a second time, after the client has answered it: in one
 * datagram with the flight that ends the handshake. A server repeats it when a client is slow, and over TCP both may come at once.
 * @param host where clients find the way, at the gateway's port
 * @param gatewayHost where the gateway is
 * @returns how many flights were repeated, and what closes it
 */
export async function openRepeatingProxy(host: string, gatewayHost: string, port: number) {
  const front = createSocket('udp4');
  const backs = new Map<string, Socket>();
  const state = { repeated: 0 };
  const openBack = (clientPort: number, clientHost: string): Socket => {
    const back = createSocket('udp4');
    let firstFlight: Buffer[] = [];
    const toClient = (datagram: Buffer) => front.send(datagram, clientPort, clientHost);
    back.on('message', (datagram) => {
      const types = recordTypesOf(datagram);
      if (types.includes(CHANGE_CIPHER_SPEC)) {
        if (firstFlight.length > 0) state.repeated += 1;
        toClient(Buffer.concat([...firstFlight, datagram]));
        firstFlight = [];
        return;
      }
      if (types[0] === HANDSHAKE) firstFlight.push(datagram);
      toClient(datagram);
    });
    return back;
  };
  front.on('message', (datagram, { port: clientPort, address }) => {
    const client = `${address} ${clientPort}`;
    const back = backs.get(client) ?? openBack(clientPort, address);
    backs.set(client, back);
    back.send(datagram, port, gatewayHost);
  });
  front.bind(port, host);
  await once(front, 'listening');
  return {
    state,
    close: () => {
      front.close();
      for (const back of backs.values()) back.close();
    },
  };
}

/** Returns the content types of the records of a datagram of DTLS; of other datagrams nothing that means anything. */
function recordTypesOf(datagram: Buffer): number[] {
  const types: number[] = [];
  for (let at = 0; at + RECORD_HEAD_BYTES <= datagram.length;) {
    types.push(datagram[at]!);
    at += RECORD_HEAD_BYTES + datagram.readUInt16BE(at + RECORD_HEAD_BYTES - 2);
  }
  return types;
}
