/** Servers, builders and engines that the tests of deployments run, from Debian's packages. */
import { provide } from './apt.mjs';
import { find } from './find.mjs';
import { provideTrixieServers } from './trixie-servers.mjs';

/** Packages, each with the path of its program relative to a folder of PATH. */
const PROGRAMS = {
  'aardvark-dns': '../lib/podman/aardvark-dns',
  bubblewrap: 'bwrap',
  buildah: 'buildah',
  catatonit: 'catatonit',
  coturn: 'turnserver',
  crun: 'crun',
  debootstrap: 'debootstrap',
  'docker-compose': 'docker-compose',
  haproxy: 'haproxy',
  iptables: 'iptables',
  'kubernetes-client': 'kubectl',
  'libnss3-tools': 'certutil',
  netavark: '../lib/podman/netavark',
  nftables: 'nft',
  openssl: 'openssl',
  podman: 'podman',
  prometheus: 'promtool',
  runc: 'runc',
  systemd: 'systemd-analyze',
};

/** Installs the programs that are missing, and unpacks the servers in the versions that the shipped files name. */
export async function provideDeploymentTools() {
  const needs = Object.entries(PROGRAMS).map(([name, program]) => [
    name,
    () => find(program) !== undefined,
  ]);
  await provide('deployment tools', Object.fromEntries(needs));
  await provideTrixieServers();
}
