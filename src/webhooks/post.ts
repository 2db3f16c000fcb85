import { createHmac } from 'node:crypto';
import type { Webhook } from '../accounts/accounts.ts';

/**
 * Sends an event once, signed by the rules of Standard Webhooks (https://www.standardwebhooks.com); redirects are not followed.
 * @param body the event as JSON
 * @param nowMs ms since 1970
 * @throws {Error} unless the endpoint answers with 2xx before the signal
 */
export async function postEvent(
  { url, secret }: Webhook,
  id: string,
  body: string,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signatureOf(secret, `${id}.${timestamp}.${body}`)}`,
    },
    body,
    redirect: 'manual',
    signal,
  });
  // The body may be of any length; it is not read.
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the webhook answered ${response.status}`);
}

function signatureOf(secret: string, content: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return createHmac('sha256', key).update(content).digest('base64');
}
