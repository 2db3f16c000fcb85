/** Whether the gateway, or the usage worker, of this container lives: exit code 0 or 1. */

// Its certificate is for the name that clients know.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
const { TLS_CERT, PORT, WORKER_PORT } = process.env;
// One of them runs in a container, whatever is set: both may be given the same environment.
const origins = [`${TLS_CERT ? 'https' : 'http'}://127.0.0.1:${PORT || 3000}`];
if (Number(WORKER_PORT) > 0) origins.push(`http://127.0.0.1:${WORKER_PORT}`);
const answers = origins.map((origin) =>
  fetch(`${origin}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  ),
);
process.exit((await Promise.all(answers)).includes(true) ? 0 : 1);
