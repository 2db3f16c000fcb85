/** Whether the gateway, or the usage worker, of this container lives: exit code 0 or 1. */

// Its certificate is for the name that clients know.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
const { TLS_CERT, PORT, WORKER_PORT } = process.env;
const origin = WORKER_PORT
  ? `http://127.0.0.1:${WORKER_PORT}`
  : `${TLS_CERT ? 'https' : 'http'}://127.0.0.1:${PORT || 3000}`;
const url = `${origin}/healthz`;
const isAlive = await fetch(url).then(
  ({ ok }) => ok,
  () => false,
);
process.exit(isAlive ? 0 : 1);
