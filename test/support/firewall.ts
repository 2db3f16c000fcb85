import { execFileSync } from 'node:child_process';

/** Rules of nftables by which a network keeps something from passing between a host and everybody else. */
export type Block = { into: string[]; out: string[] };

/** Nothing is kept back. */
export const OPEN: Block = { into: [], out: [] };

const bothWays = (...rules: string[]): Block => ({ into: rules, out: rules });

export const NO_UDP = bothWays('meta l4proto udp drop');

/** WebRTC's way to a gateway, and from it. @param port its UDP and TCP port */
export const noWebRtc = (port: number): Block => ({
  into: [`meta l4proto { tcp, udp } th dport ${port} drop`],
  out: [`meta l4proto { tcp, udp } th sport ${port} drop`],
});

/** Everything but one TCP port. */
export const onlyPort = (port: number): Block => ({
  into: [`meta l4proto != tcp drop`, `tcp dport != ${port} drop`],
  out: [`meta l4proto != tcp drop`, `tcp sport != ${port} drop`],
});

/** Loses a share of the packets between a host and its clients, at random, in each direction. */
export const losing = (percent: number, protocol: 'udp' | 'tcp'): Block => {
  const rule = `meta l4proto ${protocol} numgen random mod 100 < ${percent} drop`;
  return { into: [`iifname clients ${rule}`], out: [`oifname clients ${rule}`] };
};

/** Sets what the network of a host keeps back from now on. @param commandOnHost what a command must begin with to run there */
export function setFirewall(commandOnHost: string[], { into, out }: Block): void {
  const rules = `
    table inet network
    delete table inet network
    table inet network {
      chain into {
        type filter hook input priority 0; policy accept;
        iif lo accept
        ${into.join('\n        ')}
      }
      chain out {
        type filter hook output priority 0; policy accept;
        oif lo accept
        ${out.join('\n        ')}
      }
    }`;
  const [program = '', ...words] = commandOnHost;
  execFileSync(program, [...words, 'nft', rules], { stdio: 'pipe' });
}
