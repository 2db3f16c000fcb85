import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../packages/canary/src/main.ts', import.meta.url));

/** A round takes six seconds, or twenty when nothing gets through. */
const PATIENCE_MS = 60_000;

type CanaryOptions = {
  /** Address of the gateway, or of what is before it. */
  url: string;
  apiKey: string;
  /** The authority of the certificate that is shown there. */
  caFile?: string;
  /** Words with which its command begins, to run it on another host. */
  commandBefore?: string[];
};

/** Starts the canary's command. Its output grows as it reports. */
export function startCanary(
  { url, apiKey, caFile, commandBefore = [] }: CanaryOptions,
  ...words: string[]
) {
  const [program, ...more] = [...commandBefore, process.execPath, PROGRAM, '--url', url];
  const child = spawn(program, [...more, ...words], {
    env: {
      ...process.env,
      CANARY_KEY: apiKey,
      ...(caFile !== undefined && { NODE_EXTRA_CA_CERTS: caFile }),
    },
  });
  const canary = { child, output: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (canary.output += chunk.toString()));
  }
  return canary;
}

/** Runs one round. @returns its exit code, and what it printed */
export async function runCanaryOnce(options: CanaryOptions) {
  const canary = startCanary(options, '--once');
  const [code] = (await once(canary.child, 'close')) as [number];
  return { code, output: canary.output };
}

/** For each round of an output, whether all four directions were heard. */
export const roundsIn = (output: string) =>
  output
    .split(/^(?=\d{4}-\d\d-\d\dT)/m)
    .filter((round) => /^\d{4}-/.test(round) && /WebRTC to WebRTC .*\n/.test(round))
    .map((round) => (round.match(/ to .* ms .* lost .* dB/g) ?? []).length === 4);

/**
 * Runs rounds until all are heard in one, on a machine that may be busy.
 * @returns what that round printed
 * @throws {Error} with what each round printed, if no round of a minute hears all
 */
export async function whenAllHeard(options: CanaryOptions): Promise<string> {
  const outputs: string[] = [];
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const { code, output } = await runCanaryOnce(options);
    if (code === 0) return output;
    outputs.push(output);
    if (performance.now() > deadlineMs) {
      throw new Error(`no round heard all directions:\n${outputs.join('\n')}`);
    }
  }
}
