import { createPrivateKey, X509Certificate } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { isIP, isIPv4 } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { createSecureContext } from 'node:tls';
import { isWildcard, pipeAddressesOf, rtcAddressesOf } from './listen-addresses.ts';
import type { Settings } from './settings.ts';

/**
 * Checks of settings that depend on the machine: files that are read, programs, and addresses that it has. HOST is left to the system,
 * which also serves addresses that are not in its list: that of a bridge without a carrier, others with `ip_nonlocal_bind`.
 */

/** Names that Fastify knows for networks. */
const NAMED_NETWORKS = new Set(['loopback', 'linklocal', 'uniquelocal']);

type Interfaces = NodeJS.Dict<Pick<NetworkInterfaceInfo, 'address'>[]>;

/** Faults of a gateway's settings on this machine, each a sentence that begins with the name of the setting. */
export function machineFaults(
  settings: Settings,
  interfaces: Interfaces = networkInterfaces(),
): string[] {
  const own = Object.values(interfaces).flatMap((addresses) => addresses ?? []);
  const known = own.map(({ address }) => address);
  return [
    ...trustProxyFaults(settings.TRUST_PROXY),
    ...rtcAddressesOf(settings).flatMap(({ ip }) => addressFaults('RTC_LISTEN_IP', ip, known)),
    ...pipeAddressesOf(settings).flatMap(({ ip }) => addressFaults('PIPE_LISTEN_IP', ip, known)),
    ...certificateFaults(settings),
    ...programFaults(settings.MEDIASOUP_WORKER_BIN),
  ];
}

function trustProxyFaults(text: string): string[] {
  if (text === '') return [];
  const networks = text.split(',').map((network) => network.trim());
  const wrong = networks.filter((network) => !isNetwork(network));
  return wrong.map((network) => `TRUST_PROXY: "${network}" is not an address or network.`);
}

/** Returns whether Fastify takes a text as a network: it ends the start at any other, and does not name the setting. */
function isNetwork(text: string): boolean {
  const [address = '', mask, ...more] = text.split('/');
  const family = isIP(address);
  if (family === 0) return NAMED_NETWORKS.has(text);
  if (mask === undefined) return true;
  const bits = /^\d{1,3}$/.test(mask) ? Number(mask) : undefined;
  if (bits === undefined) return family === 4 && isIPv4Mask(mask) && more.length === 0;
  return bits >= 1 && bits <= (family === 4 ? 32 : 128) && more.length === 0;
}

/** Returns whether a text is a mask such as 255.255.0.0: ones, then zeros. */
function isIPv4Mask(text: string): boolean {
  if (!isIPv4(text)) return false;
  const bits = text.split('.').map((byte) => Number(byte).toString(2).padStart(8, '0'));
  return /^1+0*$/.test(bits.join(''));
}

/** @param known addresses of this machine */
function addressFaults(name: string, address: string, known: readonly string[]): string[] {
  const isOwn = address.startsWith('127.') || known.includes(address);
  // A malformed address is reported by the checks that do not depend on the machine.
  if (isIP(address) === 0 || isWildcard(address) || isOwn) return [];
  return [`${name} ${address} is not an address of this machine, which has ${known.join(', ')}.`];
}

function certificateFaults({ TLS_CERT: certFile, TLS_KEY: keyFile }: Settings): string[] {
  // One without the other is reported by the checks that do not depend on the machine.
  if (certFile === '' || keyFile === '') return [];
  const faults: string[] = [];
  const read = (name: string, file: string, holds: (pem: Buffer) => object) => {
    try {
      const pem = readFileSync(file);
      createSecureContext(holds(pem));
      return pem;
    } catch (fault) {
      faults.push(`${name} ${file} cannot be used: ${wordsOf(fault)}.`);
      return undefined;
    }
  };
  const cert = read('TLS_CERT', certFile, (pem) => ({ cert: pem }));
  const key = read('TLS_KEY', keyFile, (pem) => ({ key: pem }));
  if (!cert || !key) return faults;
  try {
    // A context takes a key of another kind than the certificate's, and then no client can connect.
    const isPair = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
    return isPair ? faults : [`TLS_KEY ${keyFile} does not belong to TLS_CERT ${certFile}.`];
  } catch (fault) {
    return [`TLS_KEY ${keyFile} cannot be used with TLS_CERT: ${wordsOf(fault)}.`];
  }
}

function programFaults(file: string): string[] {
  try {
    accessSync(file, constants.X_OK);
    return [];
  } catch (fault) {
    return [`MEDIASOUP_WORKER_BIN ${file} cannot be run: ${wordsOf(fault)}.`];
  }
}

const wordsOf = (fault: unknown) => (fault instanceof Error ? fault.message : String(fault));
