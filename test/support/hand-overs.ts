import { registerHooks } from 'node:module';
import { parseAst } from 'vite';

/**
 * Finds out which files of `src` hand bytes on to each other. Sources that are loaded after {@link watchHandOvers} report the parameters of
 * each call and each value that is returned; otherwise they run as they are written.
 */

/** Bytes that one file hands on to another, as an argument of a call or as the value that a call returns. */
export type HandOver = { by: 'call' | 'return'; from: string; to: string };

const SRC = new URL('../../src/', import.meta.url).href;
/** Names of the functions that sources call. */
const CALLED = 'noteCalledWith';
const RETURNED = 'noteReturned';
/** Levels of plain objects and lists in which bytes are looked for: a packet, and what holds a packet. */
const DEPTH = 2;

/** Returns the file of `src` that a URL or a line of a stack names. */
export const fileIn = (text: string): string | undefined =>
  /^[\w/-]+\.ts/.exec(text.split(SRC)[1] ?? '')?.[0];

/** Returns the files of `src` on the stack, the last one that was called first. */
export function filesOnStack(): string[] {
  const lines = new Error('here').stack?.split('\n') ?? [];
  return lines.flatMap((line) => fileIn(line) ?? []);
}

/** True for bytes among which those of `frame` are, and for plain objects and lists that hold such. Getters are not called. */
function holds(value: unknown, frame: Buffer, depth = DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Uint8Array) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).includes(frame);
  }
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  if (depth === 0 || !isPlain) return false;
  const properties = Object.values(Object.getOwnPropertyDescriptors(value));
  return properties.some((property) => holds(property.value, frame, depth - 1));
}

/** Watches sources of `src` that are loaded from now on. */
export function watchHandOvers() {
  let frame: Buffer | undefined;
  let handOvers: HandOver[] = [];
  const note = (by: HandOver['by'], value: unknown) => {
    if (!frame || !holds(value, frame)) return;
    const [own, other] = filesOnStack();
    if (own === undefined || other === undefined || own === other) return;
    handOvers.push(by === 'call' ? { by, from: other, to: own } : { by, from: own, to: other });
  };
  Reflect.set(globalThis, CALLED, (values: unknown[]) => note('call', values));
  Reflect.set(globalThis, RETURNED, (value: unknown) => {
    note('return', value);
    return value;
  });
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (fileIn(url) === undefined || !loaded.source) return loaded;
      const { source } = loaded;
      const text = typeof source === 'string' ? source : new TextDecoder().decode(source);
      return { ...loaded, source: reporting(text) };
    },
  });
  return {
    /** Forgets what was handed on, and notes where `next` goes from now on; undefined: nothing. */
    follow: (next: Buffer | undefined) => {
      frame = next;
      handOvers = [];
    },
    /** Returns what was handed on since {@link follow}, in order. */
    get handOvers(): readonly HandOver[] {
      return handOvers;
    },
  };
}

/** Node of a syntax tree, as far as it matters here. */
type Node = { type: string; start: number; end: number; [property: string]: unknown };

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value;

const childrenOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode);

/** Returns the names that a parameter, or a part of it, declares. */
function namesIn(pattern: unknown): string[] {
  if (!isNode(pattern)) return [];
  switch (pattern.type) {
    case 'Identifier':
      return [pattern['name'] as string];
    case 'AssignmentPattern':
      return namesIn(pattern['left']);
    case 'RestElement':
      return namesIn(pattern['argument']);
    case 'Property':
      return namesIn(pattern['value']);
    case 'ObjectPattern':
      return (pattern['properties'] as unknown[]).flatMap(namesIn);
    case 'ArrayPattern':
      return (pattern['elements'] as unknown[]).flatMap(namesIn);
    default:
      throw new Error(`a parameter is a ${pattern.type}`);
  }
}

/** Returns a source whose functions report what they are called with and what they return. */
export function reporting(source: string): string {
  const inserted: { at: number; text: string }[] = [];
  const wrap = ({ start, end }: Node, before: string, after: string) =>
    inserted.push({ at: start, text: before }, { at: end, text: after });
  const visit = (node: Node) => {
    const { body, params, argument } = node;
    if (Array.isArray(params) && isNode(body)) {
      const names = params.flatMap(namesIn).filter((name) => name !== 'this');
      const call = `${CALLED}([${names.join(', ')}])`;
      const isBlock = body.type === 'BlockStatement';
      if (isBlock) inserted.push({ at: body.start + 1, text: ` ${call};` });
      else wrap(body, `(${call}, ${RETURNED}(`, '))');
    }
    if (node.type === 'ReturnStatement' && isNode(argument)) wrap(argument, `${RETURNED}(`, ')');
    for (const child of childrenOf(node)) visit(child);
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  let result = '';
  let at = 0;
  // The outer one of several that begin at one place was found first.
  for (const next of inserted.toSorted((one, other) => one.at - other.at)) {
    result += source.slice(at, next.at) + next.text;
    at = next.at;
  }
  return result + source.slice(at);
}
