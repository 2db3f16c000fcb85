import { fileURLToPath } from 'node:url';
import { Child, PINNING } from '../child.ts';

/** Set-up of every hostile row: two peers of one account that listen to each other. */

export const REPORT_TIMEOUT_MS = 30_000;

/** Path of a script of this folder. */
export const script = (name: string) => fileURLToPath(new URL(`./${name}.ts`, import.meta.url));

/** Starts a script of this folder on the core of the load. */
export const startScript = (
  what: string,
  name: string,
  words: string[],
  environment: Record<string, string> = {},
) =>
  new Child(what, [process.execPath, script(name), ...words], environment, String(PINNING?.load));

export const openListeners = (url: string, key: string, environment?: Record<string, string>) =>
  startScript('the listeners', 'listeners', [url, key], environment);

/** Returns the longest time, ms, for which one of the two heard nothing since this was last asked. */
export async function askGap(listeners: Child): Promise<number> {
  const answer = listeners.nextMessage<number>(REPORT_TIMEOUT_MS);
  listeners.process.send('report');
  return answer;
}

export const ms = (value: number) => `${value.toFixed(0)} ms`;
