import { parseArgs } from 'node:util';

export type Options = {
  url: string;
  key: string;
  everySeconds: number;
  isOnce: boolean;
  listen: { host: string | undefined; port: number } | undefined;
};

/** A round takes about five seconds. */
const LEAST_EVERY_S = 8;
/** The alerts count two rounds in 5 minutes, and miss a canary that finishes none in 3 (docker/alerts.yml). */
const MOST_EVERY_S = 60;
const MAX_PORT = 65_535;

export const USAGE = `Usage: npm run canary -- --url https://gateway.example.net --key pl_…
Joins a room of its own with two WebSocket and two WebRTC peers, plays a chirp from one of each kind, and tells how the others hear it.
  --url URL       the gateway, or its load balancer
  --key KEY       API key of the canary's own account; without it, CANARY_KEY of the environment
  --every S       seconds from one round to the next (10; ${LEAST_EVERY_S} to ${MOST_EVERY_S})
  --once          one round; ends with 1 if a direction is silent, loses over 10 %, is over 3 dB off, or a peer does not get in or stay in
  --listen [HOST]:PORT  serves Prometheus metrics at /metrics, such as :9477
`;

/** @throws {Error} naming the wrong option */
export function readOptions(args: string[], environment: NodeJS.ProcessEnv): Options {
  const { values } = parseArgs({
    args,
    options: {
      url: { type: 'string' },
      key: { type: 'string' },
      every: { type: 'string', default: '10' },
      once: { type: 'boolean', default: false },
      listen: { type: 'string' },
    },
  });
  const key = values.key ?? environment['CANARY_KEY'];
  if (!key) throw new Error('--key is missing: the API key of an account');
  const everySeconds = Number(values.every);
  if (!(everySeconds >= LEAST_EVERY_S && everySeconds <= MOST_EVERY_S)) {
    const range = `from ${LEAST_EVERY_S} to ${MOST_EVERY_S}`;
    throw new Error(
      `--every must be a number of seconds ${range}: the alerts assume a round a minute`,
    );
  }
  const listen = values.listen === undefined ? undefined : readListen(values.listen);
  return { url: readUrl(values.url), key, everySeconds, isOnce: values.once, listen };
}

function readUrl(text: string | undefined): string {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (isWeb && url.pathname === '/') return url.origin;
  throw new Error('--url is the address of the gateway, without a path: https://… or http://…');
}

function readListen(text: string): NonNullable<Options['listen']> {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(text) ?? [];
  if (port === '' || Number(port) > MAX_PORT) {
    throw new Error('--listen is [host]:port, such as :9477');
  }
  return { host: host.replace(/^\[(.*)\]$/, '$1') || undefined, port: Number(port) };
}
