import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { eventually, freeRtcPort } from './gateway.ts';

const DOCKER = join(import.meta.dirname, '../../docker');
const readShipped = (name: string) => readFile(join(DOCKER, name), 'utf8');

export type Rule = { alert: string; expr: string; for?: string; annotations: { summary: string } };
type Rules = { groups: { name: string; interval?: string; rules: Rule[] }[] };
type Config = {
  global: object;
  scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
};

/** One series of an answer, with its latest value. */
export type Series = { metric: Record<string, string>; value: number };

/** The alerts that are shipped. */
export async function readRules(): Promise<Rule[]> {
  const { groups } = parse(await readShipped('alerts.yml')) as Rules;
  return groups.flatMap(({ rules }) => rules);
}

/** The intervals at which groups of alerts are evaluated. */
export async function readIntervals(): Promise<(string | undefined)[]> {
  const { groups } = parse(await readShipped('alerts.yml')) as Rules;
  return groups.map(({ interval }) => interval);
}

/** Ports of this machine to scrape, by the job's name in docker/prometheus.yml. */
export type Targets = Record<string, number[]>;

/** Debian's Prometheus with the shipped settings and alerts, but for targets, and for intervals, `for` and short windows of some seconds. */
export class Prometheus {
  readonly url: string;
  readonly #folder: string;
  readonly #child: ChildProcess;

  private constructor(folder: string, child: ChildProcess, url: string) {
    this.#folder = folder;
    this.#child = child;
    this.url = url;
  }

  static async start(targets: Targets): Promise<Prometheus> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-prometheus-'));
    const rules = parse(await readShipped('alerts.yml')) as Rules;
    for (const group of rules.groups) delete group.interval;
    for (const rule of rules.groups.flatMap((group) => group.rules)) {
      if (rule.for) rule.for = '1s';
      rule.expr = rule.expr.replaceAll('[1m]', '[4s]');
    }
    await writeFile(join(folder, 'alerts.yml'), JSON.stringify(rules));
    await writeConfig(folder, targets);
    const address = `127.0.0.1:${freeRtcPort()}`;
    const options = [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=${address}`,
      '--log.level=warn',
    ];
    const child = spawn('prometheus', options, { stdio: ['ignore', 'inherit', 'inherit'] });
    const prometheus = new Prometheus(folder, child, `http://${address}`);
    await eventually('prometheus is ready', () => prometheus.#isReady(), 30_000);
    return prometheus;
  }

  /** Scrapes others from now on. */
  async setTargets(targets: Targets): Promise<void> {
    await writeConfig(this.#folder, targets);
    this.#child.kill('SIGHUP');
  }

  /** @throws {Error} with Prometheus's words, for an expression that is wrong */
  async query(expression: string): Promise<Series[]> {
    const { result } = await this.#ask<{
      result: { metric: Series['metric']; value: [number, string] }[];
    }>(`query?query=${encodeURIComponent(expression)}`);
    return result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
  }

  /** Names of the alerts that fire. */
  async firing(): Promise<string[]> {
    const { alerts } = await this.#ask<{
      alerts: { state: string; labels: { alertname: string } }[];
    }>('alerts');
    const names = alerts
      .filter(({ state }) => state === 'firing')
      .map(({ labels }) => labels.alertname);
    return [...new Set(names)].toSorted();
  }

  async close(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exited;
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #ask<T>(path: string): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${path}`);
    const { status, data, error } = (await answer.json()) as {
      status: string;
      data: T;
      error?: string;
    };
    if (status !== 'success') throw new Error(error);
    return data;
  }

  async #isReady(): Promise<boolean> {
    if (this.#child.exitCode !== null) throw new Error('prometheus has ended');
    const answer = await fetch(`${this.url}/-/ready`).catch(() => undefined);
    return answer?.status === 200;
  }
}

async function writeConfig(folder: string, targets: Targets): Promise<void> {
  const config = parse(await readShipped('prometheus.yml')) as Config;
  config.global = { scrape_interval: '2s', scrape_timeout: '2s', evaluation_interval: '1s' };
  for (const job of config.scrape_configs) {
    const ports = targets[job.job_name] ?? [];
    job.static_configs = [{ targets: ports.map((port) => `127.0.0.1:${port}`) }];
  }
  await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config));
}
