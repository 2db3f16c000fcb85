import { isIP, isIPv6, SocketAddress } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** An address on which this machine receives, and the address announced to others in its place, if that differs (NAT). */
export type ListenAddress = { ip: string; announced?: string };

const LOOPBACK = '127.0.0.1';
const WILDCARDS = ['0.0.0.0', '::'];
/** Each address is a candidate for every browser, and a socket in every media worker. */
const MAX_ADDRESSES = 8;
const HOST_NAME = /^[\p{L}\p{N}]([\p{L}\p{N}.-]*[\p{L}\p{N}])?$/u;
/** A name whose last label is a number is an IPv4 address with a mistake (WHATWG URL, "ends in a number"). */
const ENDS_IN_NUMBER = /(^|\.)\d+$/;

/** Returns whether others can be told a text as an address: an IP or a host name, without scheme or port. */
const isAnnounceable = (text: string) =>
  isIP(text) !== 0 || (HOST_NAME.test(text) && !ENDS_IN_NUMBER.test(text));

/** Returns whether an address stands for all of the machine's. */
export const isWildcard = (ip: string): boolean => WILDCARDS.includes(ip);

/** Returns an address as the system writes it: an IPv6 address has many spellings. A zone (`%eth0`) stays as it is. */
export function canonical(ip: string): string {
  if (!isIPv6(ip)) return ip;
  const [address = '', ...zone] = ip.split('%');
  return [new SocketAddress({ address, family: 'ipv6' }).address, ...zone].join('%');
}

/**
 * Reads a list such as `10.0.0.5=203.0.113.7,fd00::5`.
 * @param name of the setting, for the faults
 * @returns the addresses in their canonical form, and the faults of the list, one sentence each
 */
function parseListenAddresses(
  name: string,
  text: string,
): { addresses: ListenAddress[]; faults: string[] } {
  const faults: string[] = [];
  const addresses = text.split(',').map((entry) => {
    const [written = '', announced, ...more] = entry.trim().split('=');
    const ip = canonical(written);
    if (isIP(ip) === 0 || more.length > 0) {
      faults.push(`${name}: "${entry.trim()}" is not an IPv4 or IPv6 address.`);
    } else if (announced !== undefined && !isAnnounceable(announced)) {
      faults.push(`${name}: "${announced}" is not an address or host name.`);
    }
    return announced === undefined ? { ip } : { ip, announced };
  });
  const ips = addresses.map(({ ip }) => ip);
  if (new Set(ips).size < ips.length) faults.push(`${name} repeats an address.`);
  if (ips.length > MAX_ADDRESSES) {
    faults.push(`${name} has ${ips.length} addresses, more than ${MAX_ADDRESSES}.`);
  }
  return { addresses, faults };
}

/**
 * Returns the addresses by which this machine can be reached, loopback first: a browser on it may find no
 * other way (Chromium), or not that one (Firefox has no loopback candidates). Link-local IPv6 addresses are
 * left out, because they mean nothing without an interface.
 */
export function ownAddresses(
  interfaces: NodeJS.Dict<Pick<NetworkInterfaceInfo, 'address' | 'internal'>[]>,
): ListenAddress[] {
  const others = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal }) => !internal)
    .map(({ address }) => address)
    .filter((address) => !(isIPv6(address) && /^fe[89ab]/i.test(address)));
  return [...new Set([LOOPBACK, ...others])].slice(0, MAX_ADDRESSES).map((ip) => ({ ip }));
}

/** A version of IP. */
export type IpFamily = 'ipv4' | 'ipv6';

/** Returns the family by which other nodes reach an address. */
export const familyOf = ({ ip, announced = ip }: ListenAddress): IpFamily =>
  isIPv6(announced) ? 'ipv6' : 'ipv4';

/**
 * Returns where media from other nodes is received.
 * @param settings valid settings
 */
export function pipeAddressesOf(settings: {
  PIPE_LISTEN_IP: string;
  PIPE_ANNOUNCED_ADDRESS: string;
}): ListenAddress[] {
  const { PIPE_LISTEN_IP: list, PIPE_ANNOUNCED_ADDRESS: announced } = settings;
  const { addresses } = parseListenAddresses('PIPE_LISTEN_IP', list);
  const common = announced === '' ? {} : { announced };
  return addresses.map((address) => ({ ...common, ...address }));
}

/**
 * Returns the faults of a list of addresses and of those announced in their place, one sentence each.
 * @param names of both settings
 */
export function listenFaults(
  names: { list: string; announced: string },
  list: string,
  common: string,
): string[] {
  const { addresses, faults } = parseListenAddresses(names.list, list);
  if (faults.length > 0) return faults;
  if (common !== '' && addresses.length > 1) {
    return [
      `With several addresses, write ${names.list} as address=announced,… instead of ${names.announced}.`,
    ];
  }
  return addresses
    .filter(({ ip, announced = common }) => isWildcard(ip) && announced === '')
    .map(({ ip }) => `${names.announced} must be set when ${names.list} is ${ip}.`);
}

/** Returns the faults of a setting that holds one address to announce; empty means none is announced. */
export const announcedFaults = (name: string, announced: string): string[] =>
  announced === '' || isAnnounceable(announced)
    ? []
    : [`${name}: "${announced}" is not an address or host name.`];

/**
 * Returns the faults of addresses of which other nodes choose one by its family, one sentence each. Host
 * names are refused: mediasoup sends media between nodes to addresses alone.
 * @param names of both settings
 */
export function pipeAddressFaults(
  names: { list: string; announced: string },
  list: string,
  common: string,
): string[] {
  const { list: name } = names;
  const { addresses } = parseListenAddresses(name, list);
  const told = addresses.map(({ announced = '' }) => ({ name, announced }));
  const faults = [...told, { name: names.announced, announced: common }]
    .filter(({ announced }) => announced !== '' && isIP(announced) === 0)
    .map((each) => `${each.name}: "${each.announced}" is not an IPv4 or IPv6 address.`);
  if (faults.length > 0) return faults;
  const families = addresses.map(familyOf);
  if (new Set(families).size === families.length) return [];
  return [`${name} takes at most one IPv4 and one IPv6 address.`];
}

/** An address at which media workers receive WebRTC, by UDP and perhaps by TCP. */
export type RtcAddress = ListenAddress & {
  takesTcp: boolean;
  /** True if the operator chose it; one that was found may be left out. */
  isSet: boolean;
};

/**
 * Returns the addresses on which WebRTC is received: those that are set; every address, if only one to
 * announce is set; otherwise those of this machine, only loopback of which accepts TCP, because anybody
 * that reaches a TCP port can fill it with idle connections.
 * @param settings valid settings
 */
export function rtcAddressesOf(settings: {
  RTC_LISTEN_IP: string;
  RTC_ANNOUNCED_ADDRESS: string;
  RTC_TCP: boolean;
}): RtcAddress[] {
  const { RTC_LISTEN_IP: list, RTC_ANNOUNCED_ADDRESS: announced, RTC_TCP: takesTcp } = settings;
  if (list === '' && announced !== '') return [{ ip: '0.0.0.0', announced, takesTcp, isSet: true }];
  if (list === '') {
    const own = ownAddresses(networkInterfaces());
    return own.map((address) => ({
      ...address,
      takesTcp: takesTcp && address.ip === LOOPBACK,
      isSet: false,
    }));
  }
  const { addresses } = parseListenAddresses('RTC_LISTEN_IP', list);
  const common = announced === '' ? {} : { announced };
  return addresses.map((address) => ({ ...common, ...address, takesTcp, isSet: true }));
}
