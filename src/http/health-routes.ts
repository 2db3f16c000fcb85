import { Type } from 'typebox';
import type { RestServer } from './api-docs.ts';

/** What a node must have to take clients: by name, whether it has it now. */
export type Readiness = () => Promise<Record<string, boolean>>;

const HealthSchema = Type.Object({ status: Type.String() });
const ReadinessSchema = Type.Object({
  ready: Type.Boolean(),
  checks: Type.Record(Type.String(), Type.Boolean()),
});

/** `GET /healthz`: it lives. `GET /readyz`: it takes clients; 503 if not, with what is missing. */
export function registerHealthRoutes(server: RestServer, readiness: Readiness): void {
  server.get(
    '/healthz',
    { schema: { summary: 'Whether the process lives', response: { 200: HealthSchema } } },
    () => ({ status: 'ok' }),
  );
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
