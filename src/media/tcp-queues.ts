/**
 * Reads the kernel's tables of TCP connections (proc(5)).
 * @param tables texts of /proc/net/tcp and /proc/net/tcp6
 * @returns a function that returns the bytes that a remote end of a connection to `localPort` has not acknowledged, the most if it has several; 0 if there is none
 */
export function unreadBytesOf(
  tables: string[],
  localPort: number,
): (remoteIp: string, remotePort: number) => number {
  const port = hexOfPort(localPort);
  const unread = new Map<string, number>();
  for (const line of tables.join('\n').split('\n')) {
    const [, local, remote, , queues] = line.trim().split(/\s+/);
    if (!local?.endsWith(`:${port}`) || remote === undefined || queues === undefined) continue;
    const bytes = Number.parseInt(queues.split(':')[0] ?? '', 16);
    // Sockets at several addresses of this machine may have the same remote end.
    unread.set(remote, Math.max(bytes, unread.get(remote) ?? 0));
  }
  return (remoteIp, remotePort) => unread.get(`${hexOfIp(remoteIp)}:${hexOfPort(remotePort)}`) ?? 0;
}

const hexOf = (value: number, digits: number) =>
  value.toString(16).toUpperCase().padStart(digits, '0');
const hexOfPort = (port: number) => hexOf(port, 4);

/** Returns an address as the tables have it: words of 32 bits in the order of bytes of the machine, little-endian on all that Node supports. */
function hexOfIp(ip: string): string {
  const bytes = ip.includes(':') ? bytesOfIpv6(ip) : ip.split('.').map(Number);
  const words = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.slice(4 * i, 4 * i + 4));
  return words.flatMap((word) => word.toReversed().map((byte) => hexOf(byte, 2))).join('');
}

const groupsOf = (text: string) => (text === '' ? [] : text.split(':'));

function bytesOfIpv6(ip: string): number[] {
  const [head = '', tail] = ip.split('::');
  const [before, after] = [groupsOf(head), groupsOf(tail ?? '')];
  const zeros = tail === undefined ? [] : Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}
