import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readSettings } from '../../../config/settings.ts';

/** The settings that kubernetes/ and docker/compose.yaml give to usage workers, beside those of gateways; and the logs of all services. */

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

type Environment = Record<string, string | number>;
type Compose = {
  'x-environment': Environment;
  services: Record<
    string,
    { environment: Environment; logging?: { driver: string; options: Record<string, string> } }
  >;
};
type Deployment = {
  kind: string;
  spec: {
    template: {
      spec: {
        containers: [
          { envFrom?: object[]; env: { name: string; value?: string; valueFrom?: object }[] },
        ];
      };
    };
  };
};

const { 'x-environment': common, services } = parse(read('docker/compose.yaml'), {
  merge: true,
}) as Compose;

function containerOf(file: string) {
  const resources = parseAllDocuments(read(file)).map((each) => each.toJS() as Deployment);
  return resources.find(({ kind }) => kind === 'Deployment')!.spec.template.spec.containers[0];
}

test('kubernetes/: gateways and workers take the same Secret whole', () => {
  const gateway = containerOf('kubernetes/gateways.yaml');
  const worker = containerOf('kubernetes/workers.yaml');
  expect(gateway.envFrom).toEqual([{ secretRef: { name: 'partyline' } }]);
  expect(worker.envFrom).toEqual(gateway.envFrom);
  // A variable of the Deployment would come before the one of the Secret.
  expect(worker.env).toEqual([{ name: 'WORKER_PORT', value: '3000' }]);
});

test.each(['gateway-1', 'gateway-2', 'worker'])(
  'compose.yaml: %s has all of x-environment, and it is valid there',
  (name) => {
    const { environment } = services[name]!;
    expect(environment).toMatchObject(common);
    const values = Object.entries(environment).map(([variable, value]) => [
      variable,
      // Variables that compose reads.
      String(value).replace(/^\$\{.*\}$/, variable === 'RTC_ANNOUNCED_ADDRESS' ? '192.0.2.1' : ''),
    ]);
    expect(() => readSettings(Object.fromEntries(values) as Record<string, string>)).not.toThrow();
  },
);

test.each(Object.entries(services))('compose.yaml: the log of %s is bounded', (_name, service) => {
  expect(service.logging).toEqual({
    driver: 'json-file',
    options: {
      'max-size': expect.stringMatching(/^\d+m$/) as string,
      'max-file': expect.stringMatching(/^\d$/) as string,
    },
  });
});
