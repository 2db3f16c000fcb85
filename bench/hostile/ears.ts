import { fileURLToPath } from 'node:url';
import { Child, PINNING } from '../child.ts';

/** Set-up of every hostile row: two peers of one account that listen, and another account for all others. */

export const OPERATOR_KEY = 'operator-key-of-the-bench';
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

/** Asks an operator's route, and returns what it answers. */
export async function askOperator<T>(url: string, path: string, body: object): Promise<T> {
  const response = await fetch(new URL(path, url), {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Makes an account beside that of the listeners, with a webhook if it has an endpoint. */
export const createAccount = (url: string, plan: string, endpoint?: string) =>
  askOperator<{ account: { id: number }; api_key: string }>(url, '/api/admin/accounts', {
    name: 'Others',
    email: 'others@example.com',
    plan,
    ...(endpoint && { webhook_url: endpoint }),
  });

export const ms = (value: number) => `${value.toFixed(0)} ms`;
