import { hostname, type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { isIPv4, isIPv6 } from 'node:net';
import { isWildcard, ownAddresses } from '../../config/listen-addresses.ts';
import { readSettings } from '../../config/settings.ts';
import { keepCertificate } from './lan-certificate.ts';

/**
 * `npm start -- --lan`: a gateway that other devices of this network reach over TLS, so that their browsers
 * give it a microphone.
 */

type Environment = Record<string, string | undefined>;
type Interfaces = NodeJS.Dict<Pick<NetworkInterfaceInfo, 'address' | 'internal'>[]>;

const ON_THIS_MACHINE = ['localhost', '127.0.0.1', '::1'];
const HOST_NAME = /^[a-z\d]([a-z\d.-]*[a-z\d])?$/i;

/**
 * Returns the environment of a gateway that serves the local network. `HOST` and a certificate that the
 * operator has set are kept.
 * @throws {SettingsError} if the settings are wrong; {Error} if the data folder cannot be used
 */
export async function serveLan(environment: Environment): Promise<Environment> {
  const { TLS_CERT: cert, TLS_KEY: key, DATA_DIR: dataDir } = readSettings(environment);
  const served = { ...environment, HOST: environment['HOST']?.trim() || everyAddress() };
  if (cert !== '' || key !== '') return served;
  const names = [...ON_THIS_MACHINE, ...namesOf(hostname()), ...lanAddresses('::')];
  const { certFile, keyFile } = await keepCertificate(dataDir, names);
  return { ...served, TLS_CERT: certFile, TLS_KEY: keyFile };
}

/**
 * Returns the addresses at which other devices reach a gateway on this machine, IPv4 first: they are easier to type.
 * @param host on which it listens
 */
export function lanAddresses(host: string, interfaces: Interfaces = networkInterfaces()): string[] {
  const [_loopback, ...others] = ownAddresses(interfaces).map(({ ip }) => ip);
  const reached = others.filter((ip) =>
    isWildcard(host) ? host === '::' || isIPv4(ip) : ip === host,
  );
  return reached.toSorted((one, other) => Number(isIPv6(one)) - Number(isIPv6(other)));
}

/** Returns the URL of a gateway at another address of its machine. */
export function urlAt(address: string, url: string): string {
  const { protocol, port } = new URL(url);
  return `${protocol}//${isIPv6(address) ? `[${address}]` : address}${port === '' ? '' : `:${port}`}`;
}

/** A kernel without IPv6 has none of its addresses, and cannot listen on `::`. */
function everyAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.some(({ address }) => isIPv6(address)) ? '::' : '0.0.0.0';
}

/** Names of this machine in its network; `.local` is what phones find by multicast DNS. */
function namesOf(host: string): string[] {
  if (!HOST_NAME.test(host)) return [];
  return host.includes('.') ? [host] : [host, `${host}.local`];
}
