import type { LookupAddress } from 'node:dns';
import { CONNREFUSED, lookup, NODATA, NOTFOUND, Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP, type LookupFunction } from 'node:net';

/** Time after which a DNS server is asked again, ms, and number of times that it is asked: within the time of a request. */
const DNS_QUERY = { timeout: 2000, tries: 2 };
/** Faults after which the system is asked, which also knows search domains and mDNS. */
const UNKNOWN_TO_DNS: readonly unknown[] = [NOTFOUND, NODATA, CONNREFUSED];

/** Sources of addresses, in the order in which they are asked. */
type Sources = {
  hostsFile: string;
  newResolver: () => Pick<Resolver, 'resolve4' | 'resolve6'>;
  askSystem: (name: string) => Promise<LookupAddress[]>;
};

const SOURCES: Sources = {
  hostsFile: '/etc/hosts',
  // A resolver reads /etc/resolv.conf once.
  newResolver: () => new Resolver(DNS_QUERY),
  askSystem: (name) => lookup(name, { all: true }),
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

  async #answer(...[name, { all: isAll = false }, callback]: Parameters<LookupFunction>) {
    let addresses: LookupAddress[];
    try {
      addresses = await this.#find(name);
    } catch (fault) {
      callback(fault as Error, []);
      return;
    }
    if (isAll) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  }

  /** @throws {Error} if the name has no address */
  async #find(name: string): Promise<LookupAddress[]> {
    const listed = addressesIn(await readOrNothing(this.#sources.hostsFile), name);
    if (listed.length > 0) return listed;
    const resolver = this.#sources.newResolver();
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const addresses = answers.flatMap((answer) =>
      answer.status === 'fulfilled' ? answer.value.map(toAddress) : [],
    );
    if (addresses.length > 0) return addresses;
    const faults = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as NodeJS.ErrnoException] : [],
    );
    const fault = faults.find(({ code }) => !UNKNOWN_TO_DNS.includes(code));
    if (fault) throw fault;
    return this.#askSystem(name);
  }

  async #askSystem(name: string): Promise<LookupAddress[]> {
    const asking =
      this.#asking.get(name) ??
      this.#sources.askSystem(name).finally(() => this.#asking.delete(name));
    this.#asking.set(name, asking);
    return asking;
  }
}

const toAddress = (address: string): LookupAddress => ({ address, family: isIP(address) });

/** Addresses of a name in the text of a hosts file. */
function addressesIn(hosts: string, name: string): LookupAddress[] {
  return hosts
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim().split(/\s+/))
    .filter(([address = '', ...names]) => isIP(address) > 0 && names.includes(name))
    .map(([address = '']) => toAddress(address));
}

async function readOrNothing(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return '';
  }
}
