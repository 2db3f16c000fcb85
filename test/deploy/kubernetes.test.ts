import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  PodMonitor,
  PrometheusRule,
} from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment } from 'kubernetes-models/apps/v1';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Namespace, Service } from 'kubernetes-models/v1';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readSettings } from '../../config/settings.ts';
import { commandsOf, fencedCommands } from '../support/page-commands.ts';

/** The manifests, as kubectl builds them, held against the schemas of the Kubernetes API. */

const PROJECT = join(import.meta.dirname, '../..');

type Model = { new (data: never): { validate(): void } };
const MODELS: Record<string, Model> = {
  Deployment,
  Namespace,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
  PrometheusRule,
  Service,
};

type Probe = {
  httpGet: { path: string; port: string };
  terminationGracePeriodSeconds?: number;
};
type Container = {
  image: string;
  args?: string[];
  env: { name: string; value?: string }[];
  envFrom: object[];
  volumeMounts?: object[];
  ports: { name: string; containerPort: number; hostPort?: number; protocol?: string }[];
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe?: Probe;
  lifecycle?: { preStop: { exec: { command: string[] } } };
  securityContext: object;
};
type Resource = {
  kind: string;
  metadata: { name: string; namespace?: string };
  spec: {
    selector: { matchLabels: object };
    template: { metadata: { labels: object }; spec: PodSpec };
  };
};
type Policy = { spec: { ingress: [{ ports: object[] }] } };
type PodSpec = { terminationGracePeriodSeconds: number; containers: [Container] };

const runOfPage = (command: string) =>
  execFileSync('sh', ['-euc', command], { cwd: PROJECT, encoding: 'utf8' });
const COMMANDS = fencedCommands('install.md', 'Kubernetes');
const [, CREATE_SECRET = '', BUILD = ''] = COMMANDS;
const text = runOfPage(BUILD);
const resources = parseAllDocuments(text).map((document) => document.toJS() as Resource);

const find = (kind: string, name: string) =>
  resources.find((each) => each.kind === kind && each.metadata.name === name)!;
const containerOf = (name: string) => find('Deployment', name).spec.template.spec.containers[0];

/** The models copy plain objects, which would read every field. */
const NOT_PLAIN = {};

/** Stands for a value, and notes which of its fields are looked at. */
function watched(value: unknown, path: string, unseen: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([key, field]) => {
    const at = `${path}/${key}`;
    unseen.add(at);
    return [key, { at, field: watched(field, at, unseen) }] as const;
  });
  const known = new Map(fields);
  return new Proxy(value, {
    getPrototypeOf: (target) => (Array.isArray(target) ? Array.prototype : NOT_PLAIN),
    get: (target, key) => {
      const entry = known.get(String(key));
      if (!entry) return Reflect.get(target, key) as unknown;
      unseen.delete(entry.at);
      return entry.field;
    },
  });
}

/** The faults of a resource, and its fields that its schema does not know. */
function faultsOf(resource: { kind: string }): { error: string; unknown: string[] } {
  const unseen = new Set<string>();
  const model = new MODELS[resource.kind]!(watched(resource, '', unseen) as never);
  try {
    model.validate();
    return { error: '', unknown: [...unseen] };
  } catch (fault) {
    return { error: String(fault), unknown: [...unseen] };
  }
}

describe('kubernetes/', () => {
  test.each(resources.map((each) => [each.kind, each.metadata.name, each] as const))(
    '%s %s is as the API has it',
    (_kind, _name, resource) => {
      expect(faultsOf(resource)).toEqual({ error: '', unknown: [] });
    },
  );

  test('a mistyped field, and a value of a wrong type, would be noticed', () => {
    const wrong = structuredClone(find('Deployment', 'gateway')) as unknown as {
      kind: string;
      spec: { replicas: unknown; template: { spec: { containers: object[] } } };
    };
    wrong.spec.replicas = 'two';
    wrong.spec.template.spec.containers[0] = { name: 'a', imagee: 'b' };
    const { error, unknown } = faultsOf(wrong);
    expect(error).toContain('spec/replicas must be integer');
    expect(unknown).toEqual(['/spec/template/spec/containers/0/imagee']);
  });

  test('all is in one namespace, and the image has the version of this project', () => {
    const elsewhere = resources.filter(
      ({ kind, metadata }) => kind !== 'Namespace' && metadata.namespace !== 'partyline',
    );
    expect(elsewhere).toEqual([]);
    const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')) as {
      version: string;
    };
    for (const name of ['gateway', 'worker']) {
      expect(containerOf(name).image).toBe(`registry.example.com/partyline:${version}`);
    }
  });

  test('the namespace is made first, then the secret that gateways and workers read in it, then all else', () => {
    const order = COMMANDS.map(
      (command) => /^kubectl( --namespace \S+)? (\w+ \S+)/.exec(command)?.[2],
    );
    expect(order).toEqual([
      'apply --filename',
      'create secret',
      'kustomize kubernetes',
      'apply --kustomize',
    ]);
    const file = COMMANDS[0]!.split(' ').at(-1)!;
    const namespace = parse(readFileSync(join(PROJECT, file), 'utf8')) as Resource;
    expect([namespace.kind, namespace.metadata.name]).toEqual(['Namespace', 'partyline']);
    type Secret = Resource & { data: object };
    const secret = parse(runOfPage(`${CREATE_SECRET} --dry-run=client -o yaml`)) as Secret;
    expect(secret.metadata).toMatchObject({ name: 'partyline', namespace: 'partyline' });
    expect(Object.keys(secret.data)).toEqual(['CLUSTER_KEY', 'OPERATOR_KEY', 'REDIS_URL']);
    for (const name of ['gateway', 'worker']) {
      expect(containerOf(name).envFrom).toEqual([{ secretRef: { name: 'partyline' } }]);
    }
  });

  test('the printed accounts command names a workload that there is', () => {
    const [command = ''] = commandsOf('accounts.md').filter((each) => each.startsWith('kubectl'));
    const [, namespace, name = ''] =
      /--namespace (\S+) exec -it deploy\/(\S+) --/.exec(command) ?? [];
    expect(find('Deployment', name).metadata.namespace).toBe(namespace);
  });

  test('the settings are settings, and each media worker has its port on the machine', () => {
    const { env, ports } = containerOf('gateway');
    const variables = env.map(({ name, value }) => [name, value] as const);
    const addresses = { $POD_IP: '10.1.2.3', $HOST_IP: '203.0.113.7' };
    const expanded = variables.map(([name, value]) => [
      name,
      value?.replace(
        /\$\((\w+)\)/g,
        (_, variable: string) => addresses[`$${variable}` as keyof typeof addresses],
      ),
    ]);
    const settings = readSettings(Object.fromEntries(expanded) as Record<string, string>);
    expect(settings.RTC_LISTEN_IP).toBe('10.1.2.3=203.0.113.7');
    const names = variables
      .map(([name]) => name)
      .filter((name) => !name.endsWith('_IP') || name in settings);
    expect(names.filter((name) => !(name in settings))).toEqual([]);
    const rtc = ports.filter(({ hostPort }) => hostPort !== undefined);
    const expected = Array.from(
      { length: settings.MEDIA_WORKERS },
      (_, worker) => settings.RTC_PORT + worker,
    );
    for (const protocol of ['UDP', 'TCP']) {
      const ofProtocol = rtc.filter((port) => port.protocol === protocol);
      expect(ofProtocol.map(({ hostPort }) => hostPort)).toEqual(expected);
      expect(ofProtocol.map(({ containerPort }) => containerPort)).toEqual(expected);
    }
    // Ports of media and pipes, of Services (NodePort), and of the kernel.
    const taken = [
      [10_000, settings.PIPE_PORT_MAX],
      [30_000, 32_767],
      [32_768, 60_999],
    ] as const;
    const free = (port: number) => taken.every(([from, to]) => port < from || port > to);
    expect(expected.filter((port) => !free(port))).toEqual([]);
    const { ingress } = (find('NetworkPolicy', 'gateway') as unknown as Policy).spec;
    for (const protocol of ['UDP', 'TCP']) {
      const rule = { port: expected[0], endPort: expected.at(-1), protocol };
      expect(ingress[0].ports).toContainEqual(rule);
    }
    const { template } = find('Deployment', 'gateway').spec;
    expect(template.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(settings.DRAIN_MS);
  });

  test.each(['gateway', 'worker'])('%s: probes, labels and rights', (name) => {
    const { spec } = find('Deployment', name);
    expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels);
    const budget = find('PodDisruptionBudget', name).spec.selector.matchLabels;
    expect(spec.template.metadata.labels).toMatchObject(budget);
    const container = containerOf(name);
    const http = { path: '/healthz', port: 'http' };
    expect(container.startupProbe.httpGet).toEqual(http);
    expect(container.livenessProbe.httpGet).toEqual(http);
    expect(container.livenessProbe.terminationGracePeriodSeconds).toBe(10);
    expect(container.ports.map((port) => port.name)).toContain('http');
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  test("a gateway may write the image's DATA_DIR", () => {
    const dockerfile = readFileSync(join(PROJECT, 'docker/Dockerfile'), 'utf8');
    const [, mountPath] = /DATA_DIR=(\S+)/.exec(dockerfile) ?? [];
    expect(containerOf('gateway').volumeMounts).toEqual([{ name: 'data', mountPath }]);
  });

  test('a gateway takes clients while it is ready, and drains before it is stopped', () => {
    const { readinessProbe, lifecycle } = containerOf('gateway');
    expect(readinessProbe?.httpGet).toEqual({ path: '/readyz', port: 'http' });
    // test/deploy/image.test.ts runs it.
    expect(lifecycle?.preStop.exec.command).toEqual(['node', 'docker/drain.mjs']);
    const dockerfile = readFileSync(join(PROJECT, 'docker/Dockerfile'), 'utf8');
    expect(dockerfile).toContain('/app/docker/drain.mjs docker/');
  });
});
