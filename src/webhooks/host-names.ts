import { ADDRCONFIG, type LookupAddress } from 'node:dns';
import {
  CONNREFUSED,
  lookup,
  NODATA,
  NOTFOUND,
  REFUSED,
  Resolver,
  SERVFAIL,
} from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP, type LookupFunction } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { type DnsResolver, type Family, queryDns, toLookupAddress } from './query-dns.ts';

/** Time after which the first DNS server is given up for the next, ms, and number of times that each is asked. */
const DNS_QUERY = { timeout: 2000, tries: 2 };
/** Faults after which the system is asked, which also knows search domains and mDNS. */
const UNKNOWN_TO_DNS: readonly unknown[] = [NOTFOUND, NODATA, CONNREFUSED];
/** Faults with which systemd-resolved answers queries for local names, which it does not pass on to DNS. */
const LOCAL_NAME_REFUSED: readonly unknown[] = [SERVFAIL, REFUSED];
const BOTH_FAMILIES: Family[] = [4, 6];

/** Addresses of this host, by interface. */
type Interfaces = NodeJS.Dict<Pick<NetworkInterfaceInfo, 'family' | 'internal'>[]>;

/** Sources of addresses, in the order in which they are asked. */
type Sources = {
  hostsFile: string;
  newResolver: () => DnsResolver;
  askSystem: (name: string) => Promise<LookupAddress[]>;
  networkInterfaces: () => Interfaces;
};

const SOURCES: Sources = {
  hostsFile: '/etc/hosts',
  // A resolver reads /etc/resolv.conf once.
  newResolver: () => new Resolver(DNS_QUERY),
  askSystem: (name) => lookup(name, { all: true }),
  networkInterfaces,
};

/**
 * Addresses of the hosts of webhooks. The system's own lookup keeps a thread for as long as DNS servers do not answer, and
 * has few threads: some names without an answer would hold up all others. DNS is therefore asked without a thread, and the
 * system only for names that DNS does not know.
 */
export class HostNames {
  readonly #sources: Sources;
  /** Lookups by the system under way, by name: one thread each. */
  readonly #asking = new Map<string, Promise<LookupAddress[]>>();

  constructor(sources: Partial<Sources> = {}) {
    this.#sources = { ...SOURCES, ...sources };
  }

  /** Addresses of both families for {@link net.connect}, whatever family it asks for. */
  readonly lookup: LookupFunction = (...asked) => void this.#answer(...asked);

  async #answer(
    ...[name, { all: isAll = false, hints = 0 }, callback]: Parameters<LookupFunction>
  ) {
    let addresses: LookupAddress[];
    try {
      addresses = await this.#find(name, hints);
    } catch (fault) {
      callback(fault as Error, []);
      return;
    }
    if (isAll) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  }

  /** @throws {Error} if the name has no address */
  async #find(name: string, hints: number): Promise<LookupAddress[]> {
    const listed = addressesIn(await readOrNothing(this.#sources.hostsFile), name);
    if (listed.length > 0) return listed;
    const families = hints & ADDRCONFIG ? this.#ownFamilies() : BOTH_FAMILIES;
    const resolver = this.#sources.newResolver();
    const { addresses, faults } = await queryDns(resolver, name, families);
    if (addresses.length > 0) return addresses;
    const fault = faults.find(({ code }) => !isUnknownToDns(name, code));
    if (fault) throw fault;
    return this.#askSystem(name);
  }

  /** Families of the addresses by which this host reaches others; both if it has none, or may not list them. */
  #ownFamilies(): Family[] {
    try {
      return familiesOf(this.#sources.networkInterfaces());
    } catch {
      // A sandbox may forbid it, as systemd does without AF_NETLINK.
      return BOTH_FAMILIES;
    }
  }

  async #askSystem(name: string): Promise<LookupAddress[]> {
    const asking =
      this.#asking.get(name) ??
      this.#sources.askSystem(name).finally(() => this.#asking.delete(name));
    this.#asking.set(name, asking);
    return asking;
  }
}

/** Families of the addresses by which a host with these interfaces reaches others; both if it has none. */
function familiesOf(interfaces: Interfaces): Family[] {
  const external = Object.values(interfaces).flatMap((addresses = []) =>
    addresses.filter(({ internal: isInternal }) => !isInternal),
  );
  const families = BOTH_FAMILIES.filter((version) =>
    external.some(({ family }) => family === `IPv${version}`),
  );
  return families.length > 0 ? families : BOTH_FAMILIES;
}

/** True if the system may know a name for which DNS has this fault. */
function isUnknownToDns(name: string, code: string | undefined): boolean {
  const isLocal = !name.includes('.') || name.endsWith('.local');
  return UNKNOWN_TO_DNS.includes(code) || (isLocal && LOCAL_NAME_REFUSED.includes(code));
}

/** Addresses of a name in the text of a hosts file. */
function addressesIn(hosts: string, name: string): LookupAddress[] {
  return hosts
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim().split(/\s+/))
    .filter(([address = '', ...names]) => isIP(address) > 0 && names.includes(name))
    .map(([address = '']) => toLookupAddress(address));
}

async function readOrNothing(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return '';
  }
}
