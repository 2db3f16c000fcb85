/**
 * Reads the query of a URL as `/ws` does; a name that is given more than once has an array. Bytes that are not UTF-8 become U+FFFD, which
 * names may not have: Fastify's own parser leaves them percent-encoded, as if that were the name.
 */
export function parseQueryString(text: string): Record<string, string | string[]> {
  const query = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(text)) {
    const before = query[name];
    if (before === undefined) query[name] = value;
    else if (typeof before === 'string') query[name] = [before, value];
    else before.push(value);
  }
  return query;
}
