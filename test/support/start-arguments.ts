import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = new URL('../../', import.meta.url);

/** What `npm start` gives to Node: its options, and the program. */
export function startArguments(): string[] {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', PROJECT), 'utf8')) as {
    scripts: { start: string };
  };
  const [, ...options] = scripts.start.split(' ');
  const program = options.pop() ?? '';
  return [...options, fileURLToPath(new URL(program, PROJECT))];
}
