import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { expect, test, vi } from 'vitest';
import { readSettings } from '../../config/settings.ts';
import { redisTables } from '../../scripts/doc-tables/redis.mjs';
import { Metrics } from '../../src/http/metrics.ts';
import { CLOSE_CODES } from '../../src/protocol/close-codes.ts';

/**
 * Names that operators, dashboards, other nodes and clients may use, none of which may go. A new name is not held until it
 * is added here. Not in the list are:
 * - metrics of the process and of Node, which prom-client names, and values of labels
 * - what the keys, channels and messages on the bus hold
 * - types and fields of messages to and from clients, parameters of `/ws`, audio formats (test/unit/docs.test.ts and the tables of docs/protocol.md)
 * - paths, fields and headers of REST, WHIP and WHEP, fields of webhook events
 * - log messages, commands, parts of the client's package
 */
const PROJECT = join(import.meta.dirname, '../..');
const kept = JSON.parse(
  readFileSync(join(PROJECT, 'test/fixtures/kept-names.json'), 'utf8'),
) as Record<'settings' | 'redisKeys' | 'redisChannels' | 'busMessages', string[]> & {
  metrics: Record<string, string[]>;
  closeCodes: Record<string, number>;
};

const missing = (names: string[], known: Iterable<string>) => {
  const there = new Set(known);
  return names.filter((name) => !there.has(name));
};

test('every setting is there', () => {
  expect(missing(kept.settings, Object.keys(readSettings({})))).toEqual([]);
});

test('every metric is there, with its labels', () => {
  const registered = vi.spyOn(Registry.prototype, 'registerMetric');
  void new Metrics();
  const all = registered.mock.calls.map(
    ([metric]) => metric as unknown as { name: string; labelNames: string[] },
  );
  registered.mockRestore();
  const labels = Object.fromEntries(all.map(({ name, labelNames }) => [name, labelNames]));
  expect(labels).toMatchObject(kept.metrics);
});

test('every key and channel in Redis is there', () => {
  const { channels = '', ...keys } = redisTables();
  const namesIn = (table: string) =>
    [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name!);
  expect(missing(kept.redisKeys, Object.values<string>(keys).flatMap(namesIn))).toEqual([]);
  expect(missing(kept.redisChannels, namesIn(channels))).toEqual([]);
});

test('every message on the bus is there', () => {
  const sources = globSync('src/**/*.ts', { cwd: PROJECT });
  const handled = sources.flatMap((file) => {
    const text = readFileSync(join(PROJECT, file), 'utf8');
    return [...text.matchAll(/\b(?:bus\.on|rpc\.handle)\(\s*'(\w+)'/g)].map(([, kind]) => kind!);
  });
  expect(missing(kept.busMessages, handled)).toEqual([]);
});

test('every close code is there, with its number', () => {
  expect(CLOSE_CODES).toMatchObject(kept.closeCodes);
});
