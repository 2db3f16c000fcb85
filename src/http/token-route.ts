import { Type } from 'typebox';
import { requireActive } from '../accounts/authenticator.ts';
import { TokenRequestSchema, type Tokens } from '../accounts/tokens.ts';
import { checkName, checkRoomName } from '../protocol/names.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

const TokenSchema = Type.Object({ token: Type.String(), expires_at: Type.String() });

/** `POST /api/tokens`: a short-lived token for one peer (docs/protocol.md §4). */
export function registerTokenRoute(
  server: RestServer,
  { guard, tokens }: { guard: RestGuard; tokens: Tokens },
): void {
  const schema = {
    summary: 'Create a token that /ws accepts in place of the API key, for one peer and some rooms',
    security: [{ apiKey: [] }],
    body: TokenRequestSchema,
    response: { 200: TokenSchema },
  };
  server.post('/api/tokens', { schema, onRequest: guard.client }, async (request) => {
    const credentials = guard.credentialsOf(request);
    requireActive(credentials);
    const { peer, rooms } = request.body;
    checkName(peer, 'peer', 'bad_request');
    if (rooms !== '*') for (const room of rooms) checkRoomName(room, 'bad_request', 'rooms');
    const owner = { accountId: credentials.account.id, keyId: credentials.keyId };
    return tokens.issue(owner, request.body);
  });
}
