import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { describeFaults } from '../protocol/schema-faults.ts';
import { VERSION } from '../version.ts';
import { ProblemSchema } from './problem.ts';

/** Fastify server that infers the types of a route from its schemas. */
export type RestServer = ReturnType<typeof asRestServer>;

export const asRestServer = (server: FastifyInstance) =>
  server
    .withTypeProvider<TypeBoxTypeProvider>()
    .setValidatorCompiler(compileSchema)
    .setSchemaErrorFormatter((errors, where) => {
      return new Error(`${where}: ${describeFaults(errors as TLocalizedValidationError[])}.`);
    });

/** A whole number as it is usually written. */
const WHOLE_NUMBER = /^(0|[1-9]\d{0,14})$/;

/**
 * Compiles the schema of a part of a request. In a path or query a {@link WHOLE_NUMBER} is read as a number where the schema has
 * one; nothing else is converted. The compilers of Fastify and TypeBox also take `7.9`, `0x7` and `true` for numbers, which would be
 * those of other accounts.
 */
const compileSchema: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validator = Compile(schema);
  return (given: unknown) => {
    const value = httpPart === 'body' ? given : readNumbers(schema, given);
    return validator.Check(value) ? { value } : { error: validator.Errors(value) };
  };
};

function readNumbers(schema: TSchema, given: unknown): unknown {
  if (!Type.IsObject(schema)) return given;
  const isNumber = (name: string, value: unknown) =>
    Type.IsInteger(schema.properties[name]) &&
    typeof value === 'string' &&
    WHOLE_NUMBER.test(value);
  return Object.fromEntries(
    Object.entries(given as Record<string, unknown>).map(([name, value]) => [
      name,
      isNumber(name, value) ? Number(value) : value,
    ]),
  );
}

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
