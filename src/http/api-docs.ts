import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import { TypeBoxValidatorCompiler, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import type { TLocalizedValidationError } from 'typebox/error';
import { describeFaults } from '../protocol/schema-faults.ts';
import { VERSION } from '../version.ts';
import { ProblemSchema } from './problem.ts';

/** Fastify server that infers the types of a route from its schemas. */
export type RestServer = ReturnType<typeof asRestServer>;

export const asRestServer = (server: FastifyInstance) =>
  server
    .withTypeProvider<TypeBoxTypeProvider>()
    // Fastify's default validator converts values of a wrong type instead of refusing them.
    .setValidatorCompiler(TypeBoxValidatorCompiler)
    .setSchemaErrorFormatter((errors, where) => {
      return new Error(`${where}: ${describeFaults(errors as TLocalizedValidationError[])}.`);
    });

const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description }) as const;

/** Serves an OpenAPI 3.1 description of the routes that are registered after it, made from their schemas, at `/api/docs`. */
export async function registerApiDocs(server: FastifyInstance): Promise<void> {
  await server.register(fastifySwagger, {
    // Any route may answer with a problem. This schema is only documentation: responses are not
    // serialized by it.
    transform: ({ schema, url }) => ({
      schema: { ...schema, response: { ...(schema?.response as object), default: ProblemSchema } },
      url,
    }),
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Partyline',
        version: VERSION,
        description: 'The REST interface of the gateway.',
      },
      components: {
        securitySchemes: {
          apiKey: bearer('An API key of an account'),
          token: bearer('A token of a peer (POST /api/tokens)'),
          operatorKey: bearer('The OPERATOR_KEY of the gateway'),
        },
      },
    },
  });
  await server.register(fastifySwaggerUi, {
    routePrefix: '/api/docs',
    theme: { title: 'Partyline: REST interface' },
  });
}
