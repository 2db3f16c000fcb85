import { spawnSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { CanaryMetrics } from '../../../packages/canary/src/metrics.ts';
import { AUDIO_METRICS } from '../../../src/http/audio-metrics.ts';
import { LOAD_METRICS } from '../../../src/http/load-metrics.ts';
import { STATE_METRICS } from '../../../src/http/state-metrics.ts';

const read = (path: string) => readFile(new URL(`../../../${path}`, import.meta.url), 'utf8');

type Rule = { alert: string; expr: string; for?: string; annotations: { summary: string } };
type Rules = { groups: { name: string; interval?: string; rules: Rule[] }[] };

const readRules = async () => {
  const { groups } = parse(await read('docker/alerts.yml')) as Rules;
  return groups.flatMap(({ rules }) => rules);
};

describe('docker/alerts.yml', () => {
  test('is YAML, in which each rule is whole', async () => {
    const rules = await readRules();
    expect(rules.length).toBeGreaterThan(15);
    for (const rule of rules) {
      expect(Object.keys(rule).filter((key) => key !== 'for')).toEqual([
        'alert',
        'expr',
        'annotations',
      ]);
      expect(Object.keys(rule.annotations)).toEqual(['summary']);
      expect(rule.annotations.summary.length).toBeGreaterThan(20);
    }
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });

  test('is named, each alert of it, on the pages for operators', async () => {
    const folder = new URL('../../../docs/operations/', import.meta.url);
    const pages = await readdir(folder);
    const texts = await Promise.all(pages.map((page) => readFile(new URL(page, folder), 'utf8')));
    const text = texts.join('\n');
    const names = (await readRules()).map(({ alert }) => alert);
    expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });

  const { error } = spawnSync('promtool', ['--version']);
  test.skipIf(error)('is taken by promtool', () => {
    const file = fileURLToPath(new URL('../../../docker/alerts.yml', import.meta.url));
    const { status, stdout } = spawnSync('promtool', ['check', 'rules', file]);
    expect(stdout.toString()).toContain('SUCCESS');
    expect(status).toBe(0);
  });

  test('is in kubernetes/alerts.yaml as well (node scripts/kubernetes-alerts.mjs)', async () => {
    const { spec } = parse(await read('kubernetes/alerts.yaml')) as { spec: Rules };
    expect(spec).toEqual(parse(await read('docker/alerts.yml')));
  });

  test('is evaluated as often as gateways are scraped, with compose and in Kubernetes', async () => {
    const { groups } = parse(await read('docker/alerts.yml')) as Rules;
    const prometheus = parse(await read('docker/prometheus.yml')) as {
      global: { scrape_interval: string };
    };
    const monitor = parse(await read('kubernetes/monitoring.yaml')) as {
      spec: { podMetricsEndpoints: { interval: string }[] };
    };
    const scraped = monitor.spec.podMetricsEndpoints.map(({ interval }) => interval);
    expect([prometheus.global.scrape_interval, ...scraped]).toEqual(
      groups.map(({ interval }) => interval).flatMap((interval) => [interval, interval]),
    );
  });

  test('has something to ask in Kubernetes, too, where pods are scraped by their names', async () => {
    const manifests = await Promise.all(
      ['gateways', 'workers'].map((name) => read(`kubernetes/${name}.yaml`)),
    );
    const names = manifests.map((text) => /app\.kubernetes\.io\/name: ([\w-]+)/.exec(text)?.[1]);
    const monitor = parse(await read('kubernetes/monitoring.yaml')) as {
      spec: { selector: { matchExpressions: [{ values: string[] }] } };
    };
    const [{ values }] = monitor.spec.selector.matchExpressions;
    expect(values).toEqual([...names, 'partyline-canary']);
  });

  test('asks for metrics that there are', async () => {
    const source = await read('src/http/metrics.ts');
    const events = [...source.matchAll(/#counter\(\s*'(\w+)'/g)].map(([, name]) => name);
    const scraped = [...STATE_METRICS, ...AUDIO_METRICS, ...LOAD_METRICS].map(({ name }) => name);
    const { registry } = new CanaryMetrics();
    const ofCanary = registry.getMetricsAsArray().map(({ name }) => name);
    const buckets = ofCanary.map((name) => `${name}_bucket`);
    const own = [...events, ...scraped].map((name) => `partyline_${name}`);
    const known = [...own, ...ofCanary, ...buckets];
    const asked = (await readRules()).flatMap(({ expr }) => expr.match(/\bpartyline_\w+/g) ?? []);
    expect(asked.length).toBeGreaterThan(15);
    // prom-client counts what it knows of the process itself.
    const isOfProcess = (name: string) => name.startsWith('partyline_process_');
    expect(asked.filter((name) => !known.includes(name) && !isOfProcess(name))).toEqual([]);
  });

  test('calls for help when a node is unready, no worker is alive, minutes or webhooks wait, seals or pipes fail, something runs short', async () => {
    const asked = (await readRules()).map(({ expr }) => expr).join('\n');
    for (const name of [
      'ready',
      'usage_workers',
      'oldest_open_minute_age_seconds',
      'webhook_oldest_event_age_seconds',
      'webhook_events_dropped',
      'seal_faults_total',
      'pipe_faults_total',
      'short',
      'log_lines_lost_total',
    ]) {
      expect(asked).toContain(`partyline_${name}`);
    }
  });
});

test('the other YAML files of docker/ load', async () => {
  for (const file of ['prometheus.yml', 'compose.yaml']) {
    expect(parse(await read(`docker/${file}`))).toBeTypeOf('object');
  }
});
