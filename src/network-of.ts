import { isIPv4, isIPv6 } from 'node:net';

const GROUPS = 8;
const NETWORK_GROUPS = 4;
const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/**
 * Returns the network that counts as one client: an IPv4 address itself, also if it is mapped into IPv6, and
 * the /64 of an IPv6 address, which belongs to one customer of a provider.
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
 * Returns the network of a client that is sent to the client, in CIDR notation: the /24 of an IPv4 address,
 * the /64 of an IPv6 address. If it differs from the last one, the client is in another network.
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
