import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Writes a program that is Chromium on another host.
 * @param folder where the program is written
 * @param commandBefore what its command begins with, to run it there
 * @param flags those of Chromium
 * @returns path of the program
 */
export async function writeChromium(
  folder: string,
  commandBefore: string[],
  flags: string[] = [],
): Promise<string> {
  const program = join(folder, 'chromium');
  const words = [...commandBefore, '/usr/bin/chromium', ...flags].map((word) => `'${word}'`);
  await writeFile(program, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`);
  await chmod(program, 0o755);
  return program;
}
