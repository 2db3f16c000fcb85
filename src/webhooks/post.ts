import { createHmac } from 'node:crypto';
import { request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import type { Webhook } from '../accounts/accounts.ts';
import { HostNames } from './host-names.ts';

const { lookup } = new HostNames();
/**
 * Time for connecting to an address before the next one of its host is tried, ms: Node's 250 ms are too short for hosts
 * far away. Several addresses fit into the time of a request.
 */
const CONNECTION = { lookup, autoSelectFamilyAttemptTimeout: 2500 };

/**
 * Sends an event once, signed by the rules of Standard Webhooks (https://www.standardwebhooks.com); redirects are not followed.
 * @param body the event as JSON
 * @param wallMs time of the signature, ms since 1970
 * @throws {Error} unless the endpoint answers with 2xx before the signal
 */
export async function postEvent(
  { url, secret }: Webhook,
  id: string,
  body: string,
  wallMs: number,
  signal: AbortSignal,
): Promise<void> {
  const timestamp = String(Math.floor(wallMs / 1000));
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signatureOf(secret, `${id}.${timestamp}.${body}`)}`,
    'user-agent': 'Partyline',
  };
  const status = await post(url, headers, body, signal);
  if (status < 200 || status > 299) throw new Error(`the webhook answered ${status}`);
}

/** Posts by `node:http` and `node:https`, because fetch() takes no lookup of host names. @returns the status of the answer */
function post(
  url: string,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const { protocol } = new URL(url);
  const open = protocol === 'https:' ? requestSecure : requestPlain;
  const request = open(url, { method: 'POST', headers, ...CONNECTION, signal }, (response) => {
    resolve(response.statusCode ?? 0);
    // A short body has come with the headers, and leaves the connection usable; a longer one is not
    // read.
    response.on('error', () => {}).resume();
    setImmediate(() => {
      if (!response.complete) response.destroy();
    });
  });
  request.on('error', (fault) => reject(signal.aborted ? (signal.reason as Error) : fault));
  // An answer that switches the protocol (101) closes the connection without a response or an
  // error.
  request.on('close', () => reject(new Error('the webhook closed the connection')));
  request.end(body);
  return promise;
}

function signatureOf(secret: string, content: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return createHmac('sha256', key).update(content).digest('base64');
}
