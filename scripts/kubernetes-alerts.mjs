/** Writes docker/alerts.yml as the resource of Prometheus's operator, kubernetes/alerts.yaml. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { root } from './set-up/project.mjs';

const { groups } = parse(readFileSync(join(root, 'docker/alerts.yml'), 'utf8'));
const resource = {
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'partyline' },
  spec: { groups },
};
const head = '# Made of docker/alerts.yml by `node scripts/kubernetes-alerts.mjs`.\n';
writeFileSync(
  join(root, 'kubernetes/alerts.yaml'),
  head + stringify(resource, { lineWidth: 0, singleQuote: true }),
);
