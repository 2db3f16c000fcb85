import { hostname, type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { isIPv4, isIPv6 } from 'node:net';
import { canonical, isWildcard, ownAddresses } from '../../config/listen-addresses.ts';
import { readSettings } from '../../config/settings.ts';
import { keepCertificate } from './lan-certificate.ts';

/**
 * Settings of `npm start -- --lan`: other devices of the network reach the gateway over TLS, without which their browsers would not
 * let a page use the microphone.
 */

type Environment = Record<string, string | undefined>;
type Interfaces = NodeJS.Dict<Pick<NetworkInterfaceInfo, 'address' | 'internal'>[]>;

const ON_THIS_MACHINE = ['localhost', '127.0.0.1', '::1'];
const HOST_NAME = /^[a-z\d]([a-z\d.-]*[a-z\d])?$/i;

/**
 * Returns the environment of a gateway that serves the local network. `HOST`, `TLS_CERT` and `TLS_KEY` are kept if they are set.
 * @throws {SettingsError} if a setting is wrong
 * @throws {Error} if the data folder cannot be used
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
 * Returns the addresses at which other devices reach a gateway on this machine. IPv4 comes first, because its addresses are easier to type.
 * @param host value of `HOST`
 */
export function lanAddresses(host: string, interfaces: Interfaces = networkInterfaces()): string[] {
  const [_loopback, ...others] = ownAddresses(interfaces).map(({ ip }) => ip);
  const own = canonical(host);
  const reached = others.filter((ip) =>
    isWildcard(own) ? own === '::' || isIPv4(ip) : ip === own,
  );
  return reached.toSorted((one, other) => Number(isIPv6(one)) - Number(isIPv6(other)));
}

/** Returns the URL of a gateway at another address of its machine. */
export function urlAt(address: string, url: string): string {
  const { protocol, port } = new URL(url);
  return `${protocol}//${isIPv6(address) ? `[${address}]` : address}${port === '' ? '' : `:${port}`}`;
}

/** Returns the value of `HOST` for all addresses: `::` also takes IPv4, but a kernel without IPv6, which has no such address, refuses it. */
function everyAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.some(({ address }) => isIPv6(address)) ? '::' : '0.0.0.0';
}

/** Returns the names of this machine in its network; phones find the one in `.local` by multicast DNS. */
function namesOf(host: string): string[] {
  if (!HOST_NAME.test(host)) return [];
  return host.includes('.') ? [host] : [host, `${host}.local`];
}
