import { Type } from 'typebox';
import { VERSION } from '../version.ts';
import type { RestServer } from './api-docs.ts';

/** Conditions under which a node admits clients: by name, whether each is met now. */
export type Readiness = () => Promise<Record<string, boolean>>;

const HealthSchema = Type.Object({ status: Type.String(), version: Type.String() });
const HungSchema = Type.Object({ ...HealthSchema.properties, hung: Type.Array(Type.String()) });
const ReadinessSchema = Type.Object({
  ready: Type.Boolean(),
  checks: Type.Record(Type.String(), Type.Boolean()),
});

/**
 * `GET /healthz`: it lives, and so do the processes beside it; 503 if one of them hangs, with its name. `GET /readyz`: it takes
 * clients; 503 if not, with what is missing.
 * @param readHung names of the other processes of this node that hang
 */
export function registerHealthRoutes(
  server: RestServer,
  readiness: Readiness,
  readHung: () => string[],
): void {
  const healthSchema = {
    summary: 'Whether all processes of the node live',
    response: { 200: HealthSchema, 503: HungSchema },
  };
  server.get('/healthz', { schema: healthSchema }, async (_request, reply) => {
    const hung = readHung();
    if (hung.length > 0) return reply.code(503).send({ status: 'hung', version: VERSION, hung });
    return reply.code(200).send({ status: 'ok', version: VERSION });
  });
  const schema = {
    summary: 'Whether the node takes clients',
    response: { 200: ReadinessSchema, 503: ReadinessSchema },
  };
  server.get('/readyz', { schema }, async (_request, reply) => {
    const checks = await readiness();
    const ready = Object.values(checks).every(Boolean);
    return reply.code(ready ? 200 : 503).send({ ready, checks });
  });
}
