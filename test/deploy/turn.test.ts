import { execFileSync } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { IceServers } from '../../src/media/ice-servers.ts';
import { TestBrowser } from '../support/browser.ts';
import { whenAllHeard } from '../support/canary.ts';
import { makeCertificates, type TestCertificates } from '../support/certificates.ts';
import { writeChromium } from '../support/chromium-on-host.ts';
import { TestClient } from '../support/client.ts';
import { TestCoturn } from '../support/coturn.ts';
import { freePort } from '../support/free-ports.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, lastSecondOf, opusTone, pcmTone, peakHz } from '../support/sound.ts';
import { TurnClient } from '../support/turn-client.ts';

const SECRET = 'a-long-random-text-of-this-test';
const DAY_MS = 24 * 3600 * 1000;

const opened = new AsyncDisposableStack();
let hosts: Hosts;
let certificates: TestCertificates;
let address: string;
let gateway: { url: string; apiKey: string };
let page: TestBrowser;

/** A Chromium on the host, which trusts the test's CA, as a program. */
async function makeChromium(): Promise<string> {
  const home = join(certificates.folder, 'home');
  const database = join(home, '.pki', 'nssdb');
  await mkdir(database, { recursive: true });
  const certutil = (...words: string[]) => execFileSync('certutil', words, { stdio: 'pipe' });
  certutil('-d', `sql:${database}`, '-N', '--empty-password');
  certutil('-d', `sql:${database}`, '-A', '-t', 'C,,', '-n', 'test', '-i', certificates.caFile);
  return writeChromium(certificates.folder, [...hosts.commandOn(0), 'env', `HOME=${home}`]);
}

const serversAt = (wallMs: number, secret = SECRET) =>
  new IceServers([`turns:${address}:443?transport=tcp`], secret, () => wallMs).for('browser');

const connectTurn = async (wallMs: number, secret = SECRET) => {
  const [server] = serversAt(wallMs, secret);
  const { username = '', credential = '' } = server ?? {};
  const ca = await readFile(certificates.caFile);
  return TurnClient.connect({ host: address, port: 443, ca }, { username, credential });
};

/** Runs in the page: how a browser fares with ICE servers, when it may use nothing else. */
async function gather(iceServers: RTCIceServer[]) {
  const connection = new RTCPeerConnection({ iceServers, iceTransportPolicy: 'relay' });
  const [types, errors]: [(string | null)[], number[]] = [[], []];
  connection.onicecandidate = ({ candidate }) => candidate && types.push(candidate.type);
  connection.onicecandidateerror = ({ errorCode }) => errors.push(errorCode);
  connection.createDataChannel('');
  const gathered = new Promise<void>((resolve) => {
    connection.onicegatheringstatechange = () => {
      if (connection.iceGatheringState === 'complete') resolve();
    };
  });
  await connection.setLocalDescription();
  await gathered;
  connection.close();
  return { types: [...new Set(types)], errors: [...new Set(errors)] };
}

describe.skipIf(!Hosts.arePossible)(
  'a browser that reaches the page and TURN over TLS, and nothing else',
  () => {
    beforeAll(async () => {
      hosts = Hosts.open(1);
      opened.defer(() => hosts.close());
      address = hosts.addressOfRedis(0).replace(/^10\.82/, '10.81');
      certificates = await makeCertificates(`IP:${address}`);
      opened.defer(() => certificates.close());
      const port = await freePort();
      // Beyond another network of this machine: only the TURN server, which is on both, gets there
      // from the host.
      const behind = hosts.addressOfRedis(0);
      // The kernel takes a moment to see that both ends of a link are up.
      await eventually('both networks are up', () => {
        const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
        return [address, behind].every((each) => own.some((known) => known.address === each));
      });
      const rules = `table inet host {
      chain out {
        type filter hook output priority 0; policy drop;
        oif lo accept
        ip daddr ${address} tcp dport { 443, ${port} } accept
      }
    }`;
      const [command = '', ...words] = hosts.commandOn(0);
      execFileSync(command, [...words, 'nft', rules], { stdio: 'pipe' });
      const process = await GatewayProcess.start({
        HOST: address,
        PORT: String(port),
        TLS_CERT: certificates.certFile,
        TLS_KEY: certificates.keyFile,
        RTC_LISTEN_IP: behind,
        TURN_URLS: `turns:${address}:443?transport=tcp`,
        TURN_SECRET: SECRET,
        USAGE_WORKERS: '0',
      });
      opened.defer(() => process.dispose());
      const { url, api_key: apiKey } = await process.ready();
      gateway = { url, apiKey };
      const coturn = await TestCoturn.start(certificates, {
        address,
        gateway: behind,
        secret: SECRET,
      });
      opened.defer(() => coturn.close());
      page = await TestBrowser.open(`${url}/?raw`, pcmTone(800, 0.5, 10_000), {
        executable: await makeChromium(),
        isRelayed: true,
      });
      opened.defer(() => page.close());
    }, 60_000);

    afterAll(() => opened.disposeAsync());
    const cleanUps: (() => Promise<void> | void)[] = [];
    afterEach(async () => {
      for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
    });

    test('is heard, and hears', async () => {
      await page.join('a', 'browser', gateway.apiKey);
      const legacy = await TestClient.connect(
        gateway.url,
        { room: 'a', peer: 'legacy', api_key: gateway.apiKey, audio: 'opus' },
        { ca: await readFile(certificates.caFile) },
      );
      cleanUps.push(() => legacy.vanish());
      await legacy.next('joined');
      const playing = keepPlaying(legacy, await opusTone(1000, 0.5, 10_000));
      cleanUps.push(() => playing.close());
      await vi.waitFor(async () => {
        expect(peakHz(await page.hear('legacy'))).toBe(1000);
      }, SETTLING);
      await vi.waitFor(async () => {
        expect(legacy.frames.length).toBeGreaterThan(100);
        expect(peakHz(await lastSecondOf(legacy))).toBe(800);
      }, SETTLING);
    }, 90_000);

    test('so does the canary, which tells that it is relayed', async () => {
      const { url, apiKey } = gateway;
      const commandBefore = hosts.commandOn(0);
      const target = { url, apiKey, caFile: certificates.caFile, commandBefore };
      const output = await whenAllHeard(target);
      expect(output).toMatch(/WebRTC +joined in .* over udp \S+ through TURN$/m);
    }, 90_000);

    test('gets addresses with good credentials, and none with wrong or expired ones', async () => {
      const wallMs = Date.now();
      // Beside what the server says, there is 701 for each address of the host from which it cannot
      // be reached.
      const good = await page.page.evaluate(gather, serversAt(wallMs));
      expect(good.types).toEqual(['relay']);
      expect(good.errors).not.toContain(401);
      const wrong = await page.page.evaluate(gather, serversAt(wallMs, 'another secret'));
      expect(wrong.types).toEqual([]);
      expect(wrong.errors).toContain(401);
      // They were good for a day.
      const expired = await page.page.evaluate(gather, serversAt(wallMs - DAY_MS - 60_000));
      expect(expired.types).toEqual([]);
      expect(expired.errors).toContain(401);
    });

    test('is relayed to the gateway, and not into the network behind, nor over TCP', async () => {
      const client = await connectTurn(Date.now());
      cleanUps.push(() => client.close());
      expect(await client.allocate()).toBe(0);
      expect(await client.permit(hosts.addressOfRedis(0))).toBe(0);
      const others = [
        address,
        '127.0.0.1',
        '10.0.0.1',
        '192.168.1.1',
        '169.254.169.254',
        '8.8.8.8',
      ];
      for (const peer of others) {
        expect({ peer, code: await client.permit(peer) }).toEqual({ peer, code: 403 });
      }
      const stranger = await connectTurn(Date.now(), 'another secret');
      cleanUps.push(() => stranger.close());
      expect(await stranger.allocate()).toBe(401);
      const overTcp = await connectTurn(Date.now());
      cleanUps.push(() => overTcp.close());
      expect(await overTcp.allocate('tcp')).toBe(442);
    });
  },
);
