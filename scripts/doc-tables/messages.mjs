import { CLIENT_MESSAGES } from '../../src/protocol/client-messages.ts';
import { SERVER_MESSAGES } from '../../src/protocol/messages.ts';
import { TransportDescriptionSchema } from '../../src/protocol/webrtc-descriptions.ts';
import { code, tableOf } from './markdown.mjs';

/** Tables of the messages on `/ws`, made from their schemas. */

/**
 * The parts of a JSON schema that tables show. An object with a `title` has a table of its own, and one whose fields have no
 * description has none.
 * @typedef {{
 *   type?: string, title?: string, description?: string, const?: unknown, enum?: unknown[], anyOf?: Schema[],
 *   items?: Schema, properties?: Record<string, Schema>, required?: string[],
 *   patternProperties?: Record<string, Schema>,
 *   minimum?: number, maximum?: number, minLength?: number, maxLength?: number,
 * }} Schema
 */

/** Fields that each message may have, which the page describes once. */
const COMMON = new Set(['type', 'id', 'reply_to']);
/** Maximum number of values that a table lists; fields with more describe them in words. */
const MOST_VALUES = 5;

/** @type {Record<string, string>} headings of docs/protocol.md with the fields of objects that have a title */
const HEADINGS = { transport: 'a-transport', consumer: 'new_consumer' };

/** @param {Schema} schema @returns {string} */
function typeOf(schema) {
  if (schema.title !== undefined) return `[${schema.title}](#${HEADINGS[schema.title]})`;
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum) {
    const values = schema.enum.map((value) => code(JSON.stringify(value)));
    return values.length > MOST_VALUES ? 'string' : values.join(' or ');
  }
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' or ');
  if (schema.items)
    return `array of ${typeOf(schema.items)}${schema.items.title === undefined ? 's' : ''}`;
  const [ofEach] = Object.values(schema.patternProperties ?? {});
  if (ofEach) return `object of ${ofEach.type}s${rangeOf(ofEach)}`;
  return `${schema.type}${rangeOf(schema)}`;
}

/** @param {Schema} schema */
function rangeOf({ minimum, maximum, minLength, maxLength }) {
  if (minimum !== undefined) return `, ${minimum}…${maximum}`;
  return minLength === undefined ? '' : `, ${minLength}…${maxLength} characters`;
}

/** @param {Schema} schema @returns {Schema} what has the fields of an object or of the entries of an array */
const fieldsOf = (schema) => (schema.items ? fieldsOf(schema.items) : schema);

/**
 * Returns a row for each field of an object, and for those of the objects in it.
 * @param {Schema} schema
 * @param {string} path in front of each name
 * @returns {string[][]}
 */
function rowsOf({ properties = {}, required = [] }, path = '') {
  return Object.entries(properties).flatMap(([name, field]) => {
    const inner = fieldsOf(field);
    const isOpen = inner.title === undefined && hasDescribedFields(inner);
    if (field.description === undefined && !isOpen && field.title === undefined) {
      throw new Error(`The field ${path}${name} has no description.`);
    }
    const own = [code(path + name + (required.includes(name) ? '' : '?')), typeOf(field)];
    const innerPath = `${path}${name}${field.items ? '[]' : ''}.`;
    return [
      // An object without a description is described by its fields.
      ...(field.description === undefined && isOpen ? [] : [[...own, field.description ?? '']]),
      ...(isOpen ? rowsOf(inner, innerPath) : []),
    ];
  });
}

/** @param {Schema} schema @returns {boolean} */
const hasDescribedFields = ({ properties = {} }) =>
  Object.values(properties).some(
    (field) => field.description !== undefined || hasDescribedFields(fieldsOf(field)),
  );

/** @param {Schema} schema */
function fieldsTable(schema) {
  const rows = rowsOf(schema);
  return rows.length === 0 ? 'It has no fields.' : tableOf(['field', 'type', 'meaning'], rows);
}

/** @param {Schema} schema of a message @returns {Schema} without the fields that each message may have */
const withoutCommon = ({ properties = {}, ...schema }) => ({
  ...schema,
  properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !COMMON.has(name))),
});

/** @param {[string, Schema][]} messages */
const sectionsOf = (messages) =>
  Object.fromEntries(
    messages.map(([type, schema]) => [
      type,
      `#### ${code(type)}\n\n${schema.description}\n\n${fieldsTable(withoutCommon(schema))}`,
    ]),
  );

/** @param {[string, Schema][]} messages */
const overviewOf = (messages) =>
  tableOf(
    ['message', 'meaning'],
    messages.map(([type, { description = '' }]) => [`[${code(type)}](#${type})`, description]),
  );

/** Returns the tables by name: the messages of each side, the fields of each message, and the objects in them. */
export function messageTables() {
  const [ofServer, ofClient] = [SERVER_MESSAGES, CLIENT_MESSAGES].map(
    (messages) => /** @type {[string, Schema][]} */ (Object.entries(messages)),
  );
  if (!ofServer || !ofClient) throw new Error('There are no messages.');
  return {
    'messages of the gateway': overviewOf(ofServer),
    'messages of the client': overviewOf(ofClient),
    ...sectionsOf(ofServer),
    ...sectionsOf(ofClient),
    transport: fieldsTable(/** @type {Schema} */ (TransportDescriptionSchema)),
  };
}
