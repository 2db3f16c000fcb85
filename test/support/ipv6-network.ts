import { execFileSync } from 'node:child_process';

/** A machine that has IPv6 alone, as the network sees it: a network namespace with a link to this machine. */
export class Ipv6Network {
  /** Address of this machine there. */
  readonly addressHere = 'fd6c:7061:7274:791::1';
  /** Address of the other machine. */
  readonly addressThere = 'fd6c:7061:7274:791::2';
  readonly #name = `pl6-${process.pid % 10_000}`;
  readonly #link = `pl6v${process.pid % 10_000}`;

  static open(): Ipv6Network {
    const network = new Ipv6Network();
    const name = network.#name;
    const here = network.#link;
    ip('netns', 'add', name);
    ip('link', 'add', here, 'type', 'veth', 'peer', 'name', 'net', 'netns', name);
    ip('-6', 'addr', 'add', `${network.addressHere}/64`, 'dev', here, 'nodad');
    ip('link', 'set', here, 'up');
    ip('-n', name, '-6', 'addr', 'add', `${network.addressThere}/64`, 'dev', 'net', 'nodad');
    for (const link of ['lo', 'net']) ip('-n', name, 'link', 'set', link, 'up');
    ip('-n', name, '-4', 'addr', 'flush', 'dev', 'lo');
    return network;
  }

  /** Returns the words with which a command must begin to run there. */
  get command(): string[] {
    return ['ip', 'netns', 'exec', this.#name];
  }

  /** All IPv4 addresses of the other machine, as `ip` lists them. */
  listIpv4(): string {
    return ip('-n', this.#name, '-4', 'addr', 'show').toString().trim();
  }

  close(): void {
    ip('link', 'del', this.#link);
    ip('netns', 'del', this.#name);
  }
}

const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' });
