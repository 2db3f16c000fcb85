import { type TSchema, Type } from 'typebox';

/** Schemas of the fields of text messages. The `description` of a field is its meaning in the tables of docs/protocol.md. */

export const string = (description: string) => Type.String({ description });
export const integer = (description: string) => Type.Integer({ description });
export const number = (description: string) => Type.Number({ description });
export const boolean = (description: string) => Type.Boolean({ description });

/** Factors of volume by name of peer. */
export const gains = (description: string) =>
  Type.Record(Type.String(), Type.Number(), { description });

/** Object of mediasoup's API, whose field names are in camelCase, unlike those of this protocol. */
export const mediasoupObject = <T>(description: string) =>
  Type.Unsafe<T>(Type.Object({}, { description }));

/**
 * Object that may have no fields other than these.
 * @param options `title` names an object that has a table of its own in the docs
 */
export const exactly = <T extends Record<string, TSchema>>(
  fields: T,
  options: { description?: string; title?: string } = {},
) => Type.Object(fields, { additionalProperties: false, ...options });
