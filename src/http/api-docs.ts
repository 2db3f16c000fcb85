import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import { TypeBoxValidatorCompiler, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';

/** A server whose routes are typed by their schemas. */
export type RestServer = ReturnType<typeof asRestServer>;

export const asRestServer = (server: FastifyInstance) =>
  server
    .withTypeProvider<TypeBoxTypeProvider>()
    // Fastify's own makes of what is wrong something that is right.
    .setValidatorCompiler(TypeBoxValidatorCompiler);

const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description }) as const;

/** Serves at `/api/docs` what the routes that are registered after it say of themselves in their schemas (OpenAPI 3.1). */
export async function registerApiDocs(server: FastifyInstance): Promise<void> {
  await server.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Partyline',
        version: '0.1.0',
        description: 'The REST interface of the gateway.',
      },
      components: {
        securitySchemes: {
          apiKey: bearer('An API key of an account'),
          operatorKey: bearer('The OPERATOR_KEY of the gateway'),
        },
      },
    },
  });
  await server.register(fastifySwaggerUi, { routePrefix: '/api/docs' });
}
