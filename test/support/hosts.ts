import { execFileSync } from 'node:child_process';

/** The kernel's names of networks and links; one test process has one set at a time. */
const PREFIX = `pl${process.pid % 10_000}`;

/**
 * Machines of their own, as the network sees them: network namespaces, each with a link to this machine for clients, one
 * to it for Redis, and one to each other machine for media. A link can be cut and mended.
 */
export class Hosts {
  readonly #count: number;

  private constructor(count: number) {
    this.#count = count;
  }

  /** Returns whether this process may make them: it is root, and has iproute2. */
  static get arePossible(): boolean {
    try {
      ip('netns', 'add', `${PREFIX}try`);
      ip('netns', 'del', `${PREFIX}try`);
      return true;
    } catch {
      return false;
    }
  }

  static open(count: number): Hosts {
    const hosts = new Hosts(count);
    for (let host = 0; host < count; host += 1) {
      ip('netns', 'add', nameOf(host));
      ip('-n', nameOf(host), 'link', 'set', 'lo', 'up');
      for (const net of ['clients', 'redis'] as const) hosts.#linkToHere(host, net);
      for (let other = 0; other < host; other += 1) hosts.#linkEachOther(host, other);
    }
    return hosts;
  }

  /** Returns the words with which a command must begin to run on a host. */
  commandOn(host: number): string[] {
    return ['ip', 'netns', 'exec', nameOf(host)];
  }

  /** The address of a host, for clients on this machine. */
  addressForClients = (host: number) => `10.${NET.clients}.${host}.2`;

  /** The address of this machine, for a host's Redis client. */
  addressOfRedis = (host: number) => `10.${NET.redis}.${host}.1`;

  /** The address of a host on its link to Redis: a second one that this machine can reach. */
  addressOfRedisClient = (host: number) => `10.${NET.redis}.${host}.2`;

  /** The address of a host for the others. */
  addressForNodes = (host: number) => `10.${NET.nodes}.0.${host + 1}`;

  /** Cuts, or mends, the link of two hosts to each other. */
  setNodesLink(host: number, other: number, state: 'up' | 'down'): void {
    const [first, second] = [Math.max(host, other), Math.min(host, other)];
    ip('-n', nameOf(first), 'link', 'set', `n${second}`, state);
    if (state === 'up') this.#routeEachOther(first, second);
  }

  /** The address of this machine, for a host's clients. */
  addressOfHere = (host: number) => `10.${NET.clients}.${host}.1`;

  /** Lets a host answer all addresses of this machine, as if there were an internet between them. */
  setDefaultRoute(host: number): void {
    ip('-n', nameOf(host), 'route', 'add', 'default', 'via', this.addressOfHere(host));
  }

  /** Cuts, or mends, the link of a host to this machine for clients. */
  setClientsLink(host: number, state: 'up' | 'down'): void {
    ip('-n', nameOf(host), 'link', 'set', 'clients', state);
  }

  /** Cuts, or mends, the link of a host to Redis. */
  setRedisLink(host: number, state: 'up' | 'down'): void {
    ip('-n', nameOf(host), 'link', 'set', 'redis', state);
  }

  /** Loses all packets between a host and Redis, of which neither is told, or none any more. */
  setRedisLoss(host: number, loss: 'all' | 'none'): void {
    for (const [network, address, device] of [
      [['-n', nameOf(host)], this.addressOfRedis(host), 'redis'],
      [[], this.addressOfRedisClient(host), linkHere(host, 'redis')],
    ] as const) {
      const neighbour = [address, 'dev', device];
      const nobody = ['lladdr', '02:00:00:00:00:01', 'nud', 'permanent'];
      if (loss === 'all') ip(...network, 'neigh', 'replace', ...neighbour, ...nobody);
      else ip(...network, 'neigh', 'del', ...neighbour);
    }
  }

  close(): void {
    for (let host = 0; host < this.#count; host += 1) {
      // The kernel takes a namespace's links away only after its last process.
      for (const net of ['clients', 'redis'] as const) ip('link', 'del', linkHere(host, net));
      ip('netns', 'del', nameOf(host));
    }
  }

  #linkToHere(host: number, net: 'clients' | 'redis'): void {
    const here = linkHere(host, net);
    ip('link', 'add', here, 'type', 'veth', 'peer', 'name', net, 'netns', nameOf(host));
    ip('addr', 'add', `10.${NET[net]}.${host}.1/24`, 'dev', here);
    ip('link', 'set', here, 'up');
    ip('-n', nameOf(host), 'addr', 'add', `10.${NET[net]}.${host}.2/24`, 'dev', net);
    ip('-n', nameOf(host), 'link', 'set', net, 'up');
  }

  #linkEachOther(host: number, other: number): void {
    const there = ['peer', 'name', `n${host}`, 'netns', nameOf(other)];
    ip('link', 'add', `n${other}`, 'netns', nameOf(host), 'type', 'veth', ...there);
    for (const [self, to] of [
      [host, other],
      [other, host],
    ] as const) {
      ip('-n', nameOf(self), 'addr', 'add', `${this.addressForNodes(self)}/32`, 'dev', `n${to}`);
      ip('-n', nameOf(self), 'link', 'set', `n${to}`, 'up');
    }
    this.#routeEachOther(host, other);
  }

  #routeEachOther(host: number, other: number): void {
    for (const [self, to] of [
      [host, other],
      [other, host],
    ] as const) {
      ip('-n', nameOf(self), 'route', 'replace', this.addressForNodes(to), 'dev', `n${to}`);
    }
  }
}

const NET = { clients: 81, redis: 82, nodes: 83 };
const linkHere = (host: number, net: keyof typeof NET) => `${PREFIX}${net.slice(0, 1)}${host}`;
const nameOf = (host: number) => `${PREFIX}-${host}`;
const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' });
