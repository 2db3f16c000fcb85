/**
 * Drains the gateway of this container, and waits until it has ended: what Kubernetes calls before it stops a container. With code 1, and a
 * reason, if it cannot: SIGTERM, which follows, drains as well.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { ownAddress } from './own-address.mjs';

// Its certificate is for the name that clients know.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
const { TLS_CERT, PORT, OPERATOR_KEY } = process.env;
const origin = `${TLS_CERT ? 'https' : 'http'}://${ownAddress}:${PORT || 3000}`;

if (!OPERATOR_KEY) throw new Error('OPERATOR_KEY is not set');
const answer = await fetch(`${origin}/api/admin/drain`, {
  method: 'POST',
  headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
  body: '{}',
});
if (!answer.ok) throw new Error(`the gateway answered ${answer.status}: ${await answer.text()}`);

const lives = () =>
  fetch(`${origin}/healthz`).then(
    () => true,
    () => false,
  );
while (await lives()) await wait(1000);
