import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { TestCertificates } from './certificates.ts';
import { eventually } from './gateway.ts';
import type { Image } from './image.ts';
import { settingsOf } from './page-commands.ts';
import { replaceAll } from './replace-all.ts';

const PROJECT = join(import.meta.dirname, '../..');
const HEALTH_EVERY_MS = 1000;

/** A machine without the right to raise its limits; compose.yaml asks for more. */
const LIMITS = { nofile: 8192, nproc: 4096 };
const SMALL_LIMITS = `ulimits: ${JSON.stringify(LIMITS)}`;
const CONTAINERS = `
[containers]
default_ulimits = ["nofile=${LIMITS.nofile}:${LIMITS.nofile}", "nproc=${LIMITS.nproc}:${LIMITS.nproc}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
`;

/** The official image of Redis starts as root, and gives the server its user; it takes clients of other containers. */
const REDIS_ENTRY = `#!/bin/sh
[ "$1" = redis-server ] || exec "$@"
exec setpriv --reuid redis --regid redis --clear-groups -- "$@" --protected-mode no
`;

/** Servers of Debian, as their official images have them: what is started, and by which user. */
const SERVERS = {
  'redis:8.0': [
    `RUN echo ${Buffer.from(REDIS_ENTRY).toString('base64')} | base64 -d > /entry && chmod 755 /entry`,
    'WORKDIR /data',
    'ENTRYPOINT ["/entry"]',
  ],
  'haproxy:2.6': [
    'USER haproxy',
    'CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
  ],
  'prom/prometheus:v2.53.3': [
    'USER nobody',
    'WORKDIR /prometheus',
    'ENTRYPOINT ["prometheus"]',
    'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]',
  ],
};
const INSTALL = [
  'RUN apt-get update && apt-get install -y --no-install-recommends redis-server haproxy prometheus',
  'RUN install -d -o redis /data && install -d -o nobody /prometheus /usr/local/etc/haproxy',
];

const run = promisify(execFile);
const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' });

/** The network of the containers, and this machine's link to it. */
const NETWORK = `pl${process.pid % 10_000}-compose`;
const LINK = `pl${process.pid % 10_000}x`;
const HERE = '10.84.0.1';
/**
 * The address that podman's bridge gets. Left alone, a bridge takes the lowest address of its containers, and so another one when a
 * container comes or goes; the containers then send to the old one for up to ten seconds. Docker fixes it, too.
 */
const BRIDGE_ADDRESS = '02:00:00:00:00:01';

/** The address by which this machine reaches what the containers publish. */
export const COMPOSE_ADDRESS = '10.84.0.2';

/** Values in place of those of the page. */
const SETTINGS: Record<string, string> = {
  RTC_ANNOUNCED_ADDRESS: COMPOSE_ADDRESS,
  OPERATOR_KEY: 'operator-key-of-the-tests',
  CLUSTER_KEY: 'cluster-key-of-the-tests',
  GRAFANA_PASSWORD: 'password',
};

/** `docker/compose.yaml`, brought up by docker-compose on podman, in a network of its own. */
export class ComposeProject {
  readonly #image: Image;
  readonly #folder: string;
  readonly #stopping = new AbortController();
  #service: ChildProcess | undefined;
  #checking: Promise<void> | undefined;

  private constructor(image: Image) {
    this.#image = image;
    this.#folder = join(image.folder, 'project');
  }

  /** Nothing runs yet but podman. */
  static async open(image: Image, certificates: TestCertificates): Promise<ComposeProject> {
    await image.addLines('servers', INSTALL);
    for (const [name, lines] of Object.entries(SERVERS)) {
      const fullName = name.includes('/') ? name : `library/${name}`;
      await image.addLines(`docker.io/${fullName}`, lines, 'servers');
    }
    const project = new ComposeProject(image);
    openNetwork();
    try {
      await project.#writeFiles(certificates);
      await project.#startService();
    } catch (fault) {
      await project.close();
      throw fault;
    }
    return project;
  }

  /** Runs docker-compose. @returns its output */
  async compose(...words: string[]): Promise<string> {
    const options = ['-f', 'docker/compose.yaml', ...words];
    const { stdout } = await run('docker-compose', options, this.#place);
    return stdout;
  }

  /** Runs a command of a page in the project's folder, where `docker` is docker-compose and podman. @returns its output */
  async runCommand(command: string): Promise<string> {
    const { stdout } = await run('sh', ['-euc', command], this.#place);
    return stdout;
  }

  /** Adds settings to docker/.env. */
  async addSettings(settings: Iterable<[string, string]>): Promise<void> {
    const lines = [...settings].map(([name, value]) => `${name}=${value}\n`);
    await appendFile(join(this.#docker, '.env'), lines.join(''));
  }

  /** Runs podman. @returns its output */
  async podman(...words: string[]): Promise<string> {
    const [program = '', ...more] = this.#podmanCommand(...words);
    const { stdout } = await run(program, more, { env: this.#environment });
    return stdout.trim();
  }

  /** One figure that podman tells of the container of a service. */
  inspect(service: string, format: string): Promise<string> {
    return this.podman('inspect', '--format', format, `partyline_${service}_1`);
  }

  /** Runs a command in its network. @returns its output */
  async inside(...words: string[]): Promise<string> {
    const { stdout } = await run('nsenter', [`--net=/run/netns/${NETWORK}`, ...words]);
    return stdout;
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#checking;
    if (this.#service) {
      await this.podman('rm', '--all', '--force', '--time', '0');
      await this.podman('network', 'prune', '--force');
      const exited = once(this.#service, 'exit');
      this.#service.kill('SIGTERM');
      await exited;
    }
    closeNetwork();
    await rm(this.#folder, { recursive: true, force: true });
  }

  get #docker(): string {
    return join(this.#folder, 'docker');
  }

  get #socket(): string {
    return join(this.#folder, 'podman.sock');
  }

  /** The project's folder, and an environment without settings of the services. */
  get #place() {
    const env = {
      PATH: `${join(this.#folder, 'bin')}:${process.env['PATH']}`,
      CONTAINERS_CONF: this.#environment.CONTAINERS_CONF,
      DOCKER_HOST: `unix://${this.#socket}`,
      COMPOSE_HTTP_TIMEOUT: '300',
      // docker-compose 1 knows no name in the file.
      COMPOSE_PROJECT_NAME: 'partyline',
    };
    return { cwd: this.#folder, env };
  }

  get #environment() {
    return { ...process.env, CONTAINERS_CONF: join(this.#folder, 'containers.conf') };
  }

  #podmanCommand(...words: string[]): string[] {
    const folders = ['--network-config-dir', 'networks', '--tmpdir', 'tmp'].map((word) =>
      word.startsWith('-') ? word : join(this.#folder, word),
    );
    const options = [...this.#image.storage, '--runtime', 'runc', ...folders];
    return ['nsenter', `--net=/run/netns/${NETWORK}`, 'podman', ...options, ...words];
  }

  /** The files of docker/, in which only the limits are others, and the commands that the pages call. */
  async #writeFiles(certificates: TestCertificates): Promise<void> {
    for (const name of ['networks', 'tmp', 'bin', 'backups']) {
      await mkdir(join(this.#folder, name), { recursive: true });
    }
    const shipped = join(PROJECT, 'docker');
    const isOwn = (path: string) => ![join(shipped, '.env'), join(shipped, 'tls')].includes(path);
    await cp(shipped, this.#docker, { recursive: true, filter: isOwn });
    await cp(join(PROJECT, 'scripts/backup.sh'), join(this.#folder, 'scripts/backup.sh'));
    const podman = this.#podmanCommand().join(' ');
    const script = `#!/bin/sh
[ "$1" = compose ] && shift && exec docker-compose "$@"
exec ${podman} "$@"
`;
    await writeFile(join(this.#folder, 'bin/docker'), script, { mode: 0o755 });
    const settings = [...settingsOf('install.md')];
    await this.addSettings(settings.map(([name, value]) => [name, SETTINGS[name] ?? value]));
    await mkdir(join(this.#docker, 'tls'), { recursive: true });
    const certificate = join(this.#docker, 'tls/partyline.pem');
    await cp(certificates.chainAndKeyFile, certificate);
    await chmod(certificate, 0o644);
    const change = async (name: string, from: string, to: string) => {
      const file = join(this.#docker, name);
      await writeFile(file, replaceAll(file, await readFile(file, 'utf8'), [[from, to]]));
    };
    await change('compose.yaml', 'name: partyline\n', '');
    // Podman adds this to a network, which docker-compose would take for a change at its next `up`.
    await change('compose.yaml', 'ipam: {', 'ipam: { options: { driver: host-local },');
    await change('haproxy.cfg', 'maxconn 60000', 'maxconn 2000');
    await change('compose.yaml', 'ulimits: { nofile: 65536 }', SMALL_LIMITS);
    await change('compose.yaml', 'ulimits: { nofile: 131072 }', SMALL_LIMITS);
    await writeFile(join(this.#folder, 'containers.conf'), CONTAINERS);
  }

  async #startService(): Promise<void> {
    const words = ['system', 'service', '--time=0', `unix://${this.#socket}`];
    const [program = '', ...more] = this.#podmanCommand(...words);
    this.#service = spawn(program, more, { env: this.#environment, stdio: 'ignore' });
    await eventually(
      'podman answers',
      () =>
        this.compose('ps').then(
          () => true,
          () => false,
        ),
      20_000,
    );
    this.#checking = this.#keepChecking();
  }

  /** Podman leaves health checks to timers of systemd, which does not run here. */
  async #keepChecking(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      for (const bridge of movableBridges()) {
        ip('-n', NETWORK, 'link', 'set', bridge, 'address', BRIDGE_ADDRESS);
      }
      const names = (await this.podman('ps', '--format', '{{.Names}}')).split('\n').filter(Boolean);
      // A container without a health check, or one that is not healthy, is an error of podman.
      for (const name of names) await this.podman('healthcheck', 'run', name).catch(() => '');
      await wait(HEALTH_EVERY_MS);
    }
  }
}

/** Bridges whose address is not fixed yet. */
function movableBridges(): string[] {
  const words = ['-n', NETWORK, '-json', 'link', 'show', 'type', 'bridge'];
  const links = JSON.parse(String(ip(...words))) as { ifname: string; address: string }[];
  return links.filter(({ address }) => address !== BRIDGE_ADDRESS).map(({ ifname }) => ifname);
}

function openNetwork(): void {
  ip('netns', 'add', NETWORK);
  ip('link', 'add', LINK, 'type', 'veth', 'peer', 'name', 'here', 'netns', NETWORK);
  ip('addr', 'add', `${HERE}/24`, 'dev', LINK);
  ip('link', 'set', LINK, 'up');
  const inside = (...words: string[]) => ip('-n', NETWORK, ...words);
  inside('addr', 'add', `${COMPOSE_ADDRESS}/24`, 'dev', 'here');
  inside('link', 'set', 'here', 'up');
  inside('link', 'set', 'lo', 'up');
  inside('route', 'add', 'default', 'via', HERE);
}

function closeNetwork(): void {
  ip('link', 'del', LINK);
  ip('netns', 'del', NETWORK);
}
