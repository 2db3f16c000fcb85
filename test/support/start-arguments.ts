import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = new URL('../../', import.meta.url);

/**
 * Returns the arguments that `npm start` gives to Node: options and program, without those for npm alone.
 * @param project root of a checkout
 */
export function startArguments(project = PROJECT): string[] {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', project), 'utf8')) as {
    scripts: { start: string };
  };
  const words = scripts.start.split(' ');
  // The first `node` runs the set-up.
  const isProgram = (word: string) => word.endsWith('.ts');
  const options = words.slice(words.lastIndexOf('node') + 1, words.findIndex(isProgram));
  const program = words.find(isProgram) ?? '';
  return [...options, fileURLToPath(new URL(program, project))];
}
