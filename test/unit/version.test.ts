import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { VERSION } from '../../src/version.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('package-lock.json, CHANGELOG and manifests have the version of package.json', () => {
  const lock = JSON.parse(read('package-lock.json')) as {
    version: string;
    packages: Record<string, { version: string }>;
  };
  const [, newest] = /^## (\S+)/m.exec(read('CHANGELOG.md'))!;
  const { images } = parse(read('kubernetes/kustomization.yaml')) as {
    images: { newTag: string }[];
  };
  expect([lock.version, lock.packages['']?.version, newest, images[0]?.newTag]).toEqual(
    Array.from({ length: 4 }, () => VERSION),
  );
});
