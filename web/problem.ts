/** Reason with which the gateway refused a request: the members of its problem document (RFC 9457) that pages use. */
export type Problem = { code: string; detail: string };

/** Returns the reason in the body of a response; undefined if the response is not the gateway's but, for example, a proxy's. */
export function problemIn(body: unknown): Problem | undefined {
  const { type, code, detail } = (body ?? {}) as Record<string, unknown>;
  const isOfGateway = typeof code === 'string' && type === `urn:partyline:error:${code}`;
  return isOfGateway && typeof detail === 'string' ? { code, detail } : undefined;
}
