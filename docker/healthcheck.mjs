/** Tells by its exit code, 0 or 1, whether the gateway or the usage worker of this container lives. */
import { readFileSync } from 'node:fs';
import { ownAddress } from './own-address.mjs';

// Its certificate is for the name that clients know.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
const { TLS_CERT, PORT, WORKER_PORT } = process.env;
const gateway = `${TLS_CERT ? 'https' : 'http'}://${ownAddress}:${PORT || 3000}`;
const worker = Number(WORKER_PORT) > 0 ? [`http://${ownAddress}:${WORKER_PORT}`] : [];

/**
 * Asks only the program that the container runs. Gateway and worker may have the same environment, and on the machine's network
 * the other one would answer in its place. Where the first process is neither of them, both are asked.
 */
const command = readFileSync('/proc/1/cmdline', 'utf8');
let origins = [gateway, ...worker];
if (command.includes('src/main.ts')) origins = [gateway];
else if (command.includes('workers/usage.ts')) origins = worker;

const answers = origins.map((origin) =>
  fetch(`${origin}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  ),
);
// A usage worker without a port has nothing that could be asked: only its end can be noticed.
const isAlive = answers.length === 0 || (await Promise.all(answers)).includes(true);
process.exit(isAlive ? 0 : 1);
