import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { TestCertificates } from './certificates.ts';
import { eventually } from './gateway.ts';
import type { Image } from './image.ts';
import { replaceAll } from './replace-all.ts';

const SHIPPED = join(import.meta.dirname, '../../docker');
const OPERATOR_KEY = 'operator-key-of-the-tests';
const HEALTH_EVERY_MS = 1000;

/** A machine without the right to raise its limits; compose.yaml asks for more. */
const LIMITS = { nofile: 8192, nproc: 4096 };
const CONTAINERS = `
[containers]
default_ulimits = ["nofile=${LIMITS.nofile}:${LIMITS.nofile}", "nproc=${LIMITS.nproc}:${LIMITS.nproc}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
`;

/** Servers of Debian, as their official images have them: what is started, and by which user. */
const SERVERS = {
  'redis:8.0': [
    'USER redis',
    'WORKDIR /data',
    // Clients of other containers may connect without a password.
    'ENTRYPOINT ["sh", "-c", "exec \\"$@\\" --protected-mode no", "sh"]',
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

/** The address by which this machine reaches what the containers publish. */
export const COMPOSE_ADDRESS = '10.84.0.2';

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
    const files = ['compose.yaml', 'limits.yaml'].flatMap((name) => [
      '-f',
      join(this.#docker, name),
    ]);
    const { stdout } = await run(
      'docker-compose',
      ['--project-name', 'partyline', ...files, ...words],
      {
        env: {
          ...process.env,
          DOCKER_HOST: `unix://${this.#socket}`,
          COMPOSE_HTTP_TIMEOUT: '300',
          RTC_ANNOUNCED_ADDRESS: COMPOSE_ADDRESS,
          OPERATOR_KEY,
          CLUSTER_KEY: 'cluster-key-of-the-tests',
          GRAFANA_PASSWORD: 'password',
        },
      },
    );
    return stdout;
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

  /** The files of docker/, in which only the limits are others; docker-compose 1 knows no name of a project. */
  async #writeFiles(certificates: TestCertificates): Promise<void> {
    for (const name of ['networks', 'tmp']) {
      await mkdir(join(this.#folder, name), { recursive: true });
    }
    await cp(SHIPPED, this.#docker, { recursive: true });
    await mkdir(join(this.#docker, 'tls'), { recursive: true });
    const certificate = join(this.#docker, 'tls/partyline.pem');
    await cp(certificates.chainAndKeyFile, certificate);
    await chmod(certificate, 0o644);
    const change = async (name: string, from: string, to: string) => {
      const file = join(this.#docker, name);
      await writeFile(file, replaceAll(file, await readFile(file, 'utf8'), [[from, to]]));
    };
    await change('compose.yaml', 'name: partyline\n', '');
    await change('haproxy.cfg', 'maxconn 60000', 'maxconn 2000');
    const limited = ['gateway-1', 'gateway-2', 'proxy'].map((name) => [name, { ulimits: LIMITS }]);
    const limits = JSON.stringify({ services: Object.fromEntries(limited) as object });
    await writeFile(join(this.#docker, 'limits.yaml'), limits);
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
      const names = (await this.podman('ps', '--format', '{{.Names}}')).split('\n').filter(Boolean);
      // A container without a health check, or one that is not healthy, is an error of podman.
      for (const name of names) await this.podman('healthcheck', 'run', name).catch(() => '');
      await wait(HEALTH_EVERY_MS);
    }
  }
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
