import { isIPv4, isIPv6 } from 'node:net';

const GROUPS = 8;
const NETWORK_GROUPS = 4;
const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/**
 * Returns what counts as one client where addresses are counted: an IPv4 address as it is, also where it is mapped into IPv6, and
 * the /64 of an IPv6 address, which one customer of a provider has to itself.
 */
export function networkOf(address: string): string {
  const [plain = ''] = address.split('%', 1);
  const [, mapped] = MAPPED_IPV4.exec(plain) ?? [];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(plain)) return plain;
  const [before = '', after] = plain.split('::');
  const head = groupsOf(before);
  const tail = groupsOf(after ?? '');
  const zeros = after === undefined ? 0 : Math.max(0, GROUPS - head.length - tail.length);
  const groups = [...head, ...Array<string>(zeros).fill('0'), ...tail];
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => Number.parseInt(group, 16));
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}

/**
 * Returns the network of a client, as the client is told of it, in the notation of CIDR: the /24 of an IPv4 address, the /64 of an IPv6
 * address. Where it is another than the last time, the client is somewhere else.
 */
export function prefixOf(address: string): string {
  const network = networkOf(address);
  return isIPv4(network) ? network.replace(/\d+$/, '0/24') : network;
}

/** An IPv4 address at the end stands for two groups, which are no part of a /64. */
const groupsOf = (text: string): string[] =>
  text === ''
    ? []
    : text.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : [group]));
