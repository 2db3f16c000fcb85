import { expect, onTestFinished, test } from 'vitest';
import { RTCIceGatherer } from 'werift';
import { MediaTransport } from '../../../../packages/canary/src/media-transport.ts';

/** Opens an end of ICE that answers checks, as a gateway does. */
async function openOtherEnd() {
  const other = new RTCIceGatherer({ iceLite: true, additionalHostAddresses: ['127.0.0.1'] });
  // Instead of one on the Internet.
  delete other.connection.stunServer;
  onTestFinished(() => other.connection.close());
  await other.gather();
  const { usernameFragment, password } = other.localParameters;
  const candidates = other.localCandidates.filter(({ ip }) => ip === '127.0.0.1');
  return {
    id: 'transport',
    ice_parameters: { usernameFragment, password },
    ice_candidates: candidates.map(({ foundation, priority, ip, port, type }) => ({
      foundation,
      priority,
      ip,
      port,
      type,
      protocol: 'udp' as const,
    })),
  };
}

test('a transport to an end without a certificate says so', async () => {
  const other = await openOtherEnd();
  const transport = await MediaTransport.open([]);
  onTestFinished(() => transport.close());
  const connecting = transport.connect({ ...other, dtls_parameters: { fingerprints: [] } });
  await expect(connecting).rejects.toThrow('remote fingerprint not exist');
  expect(transport.path).toMatch(/^udp 127\.0\.0\.1:\d+$/);
});
