/** Servers and builders that the tests of deployments run, from Debian's packages. */
import { provide } from './apt.mjs';
import { find } from './find.mjs';

/** The programs, each by the package that brings it. */
const PROGRAMS = {
  bubblewrap: 'bwrap',
  buildah: 'buildah',
  coturn: 'turnserver',
  crun: 'crun',
  debootstrap: 'debootstrap',
  haproxy: 'haproxy',
  'kubernetes-client': 'kubectl',
  'libnss3-tools': 'certutil',
  nftables: 'nft',
  openssl: 'openssl',
  prometheus: 'promtool',
  systemd: 'systemd-analyze',
};

/** Installs those of the programs that are missing. */
export async function provideDeploymentTools() {
  const needs = Object.entries(PROGRAMS).map(([name, program]) => [
    name,
    () => find(program) !== undefined,
  ]);
  await provide('deployment tools', Object.fromEntries(needs));
}
