import { Type } from 'typebox';
import { VERSION } from '../version.ts';
import type { RestServer } from './api-docs.ts';

/** Conditions under which a node admits clients: by name, whether each is met now. */
export type Readiness = () => Promise<Record<string, boolean>>;

/** Delay sent with a 503, s: the conditions are looked at anew for each request. */
const RETRY_AFTER_S = 1;

const HealthSchema = Type.Object({ status: Type.String(), version: Type.String() });
const HungSchema = Type.Object({ ...HealthSchema.properties, hung: Type.Array(Type.String()) });
const ReadinessSchema = Type.Object({
  ready: Type.Boolean(),
  checks: Type.Record(Type.String(), Type.Boolean()),
});

/**
 * `GET /healthz`: this process and the others of the group run; 503 with the name of one that hangs. `GET /readyz`: it admits
 * clients; 503 with the missing conditions if not.
 * @param readHung names of the other processes of this group that hang
 */
export function registerHealthRoutes(
  server: RestServer,
  readiness: Readiness,
  readHung: () => string[],
): void {
  const healthSchema = {
    summary: 'Whether all processes of the group run',
    response: { 200: HealthSchema, 503: HungSchema },
  };
  server.get('/healthz', { schema: healthSchema }, async (_request, reply) => {
    const hung = readHung();
    if (hung.length > 0) {
      reply.code(503).header('retry-after', RETRY_AFTER_S);
      return reply.send({ status: 'hung', version: VERSION, hung });
    }
    return reply.code(200).send({ status: 'ok', version: VERSION });
  });
  const schema = {
    summary: 'Whether the node admits clients',
    response: { 200: ReadinessSchema, 503: ReadinessSchema },
  };
  server.get('/readyz', { schema }, async (_request, reply) => {
    const checks = await readiness();
    const ready = Object.values(checks).every(Boolean);
    if (!ready) reply.code(503).header('retry-after', RETRY_AFTER_S);
    return reply.send({ ready, checks });
  });
}
