import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { startArguments } from '../../support/start-arguments.ts';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

/** Instructions of a Dockerfile, each in one line, without comments. */
const instructionsOf = (path: string) =>
  read(path)
    .replaceAll(/^ *#.*\n/gm, '')
    .replaceAll(/\s*\\\n\s*/g, ' ')
    .split('\n');

test('the image runs what npm start runs', () => {
  const dockerfile = read('docker/Dockerfile');
  const [, command] = /^CMD (.*)$/m.exec(dockerfile) ?? [];
  const [program, ...options] = (JSON.parse(command ?? '[]') as string[]).map((word) =>
    basename(word),
  );
  expect(program).toBe('node');
  expect(options).toEqual(startArguments().map((word) => basename(word)));
});

test.each(['docker/Dockerfile', 'packages/canary/Dockerfile'])(
  'what %s copies from a checkout is readable by the user of the image, whatever the umask was',
  (path) => {
    const instructions = instructionsOf(path);
    const copied = instructions.findLastIndex((line) => /^COPY (?!--from)/.test(line));
    const opened = instructions.findIndex((line) => /^RUN .*&& chmod -R a\+rX \/app$/.test(line));
    expect(copied).toBeGreaterThan(0);
    expect(opened).toBeGreaterThan(copied);
  },
);

test('the build tries the media worker as the user of the image', () => {
  const instructions = instructionsOf('docker/Dockerfile');
  const user = instructions.indexOf('USER node');
  expect(user).toBeGreaterThan(0);
  expect(instructions.indexOf('RUN build/mediasoup-worker; test $? -eq 41')).toBeGreaterThan(user);
});
