import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { startArguments } from '../../support/start-arguments.ts';

test('the image runs what npm start runs', () => {
  const dockerfile = readFileSync(new URL('../../../docker/Dockerfile', import.meta.url), 'utf8');
  const [, command] = /^CMD (.*)$/m.exec(dockerfile) ?? [];
  const [program, ...options] = (JSON.parse(command ?? '[]') as string[]).map((word) =>
    basename(word),
  );
  expect(program).toBe('node');
  expect(options).toEqual(startArguments().map((word) => basename(word)));
});
