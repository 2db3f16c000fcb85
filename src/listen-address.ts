import { lookup } from 'node:dns/promises';

/**
 * Returns the one address at which a host is served, IPv4 before IPv6. Given the name `localhost`, Fastify would open a further
 * server for each other address, without any limit on its connections; systems differ in whether ::1 or 127.0.0.1 is the first.
 * @throws {Error} naming HOST if it has no address
 */
export async function listenAddressOf(host: string): Promise<string> {
  const looking = lookup(host, { order: 'ipv4first' });
  return (await nameFaults({ HOST: host }, looking)).address;
}

/**
 * Waits until a server listens, or its address is found.
 * @param settings settings, by name, that say where a server listens
 * @throws {Error} naming these settings: the system names an address at most
 */
export async function nameFaults<T>(
  settings: Record<string, string | number>,
  listening: Promise<T>,
): Promise<T> {
  try {
    return await listening;
  } catch (cause) {
    const named = Object.entries(settings).map(([name, value]) => `${name} ${value}`);
    throw new Error(`${named.join(' and ')} cannot be used`, { cause });
  }
}
