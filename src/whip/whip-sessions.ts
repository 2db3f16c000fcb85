import { type Static, Type } from 'typebox';
import type { Timings } from '../../config/timings.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Credentials } from '../accounts/authenticator.ts';
import { TokenRequestSchema } from '../accounts/tokens.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { RemoteCall } from '../cluster/cluster-rpc.ts';
import type { ErrorCode } from '../protocol/close-codes.ts';
import { notFound, PartylineError } from '../protocol/errors.ts';
import type { Patched } from './half.ts';
import {
  type Created,
  nodeOf,
  type SessionName,
  type WhipRequest,
  type WhipService,
} from './whip-service.ts';

const KindSchema = Type.Enum(['whip', 'whep']);
const OwnerSchema = Type.Object({ accountId: Type.Integer(), peer: Type.Optional(Type.String()) });
const of = { kind: KindSchema, id: Type.String(), owner: OwnerSchema };
const granted = TokenRequestSchema.properties;

const CallSchema = Type.Union([
  Type.Object({
    ask: Type.Literal('open'),
    kind: KindSchema,
    accountId: Type.Integer(),
    keyId: Type.String(),
    grant: Type.Optional(
      Type.Object({ peer: granted.peer, rooms: granted.rooms, publish: granted.publish }),
    ),
    signedBy: Type.Optional(Type.String()),
    room: Type.String(),
    peer: Type.String(),
    from: Type.Optional(Type.String()),
    sdp: Type.String(),
  }),
  Type.Object({ ask: Type.Literal('look'), ...of }),
  Type.Object({ ask: Type.Literal('end'), ...of }),
  Type.Object({
    ask: Type.Literal('patch'),
    ...of,
    ifMatch: Type.Optional(Type.String()),
    body: Type.String(),
  }),
]);
type Call = Static<typeof CallSchema>;

const IceServerSchema = Type.Object({
  urls: Type.Array(Type.String()),
  username: Type.String(),
  credential: Type.String(),
});
const ReplySchema = Type.Object({
  created: Type.Optional(
    Type.Object({
      id: Type.String(),
      etag: Type.String(),
      sdp: Type.String(),
      iceServers: Type.Array(IceServerSchema),
    }),
  ),
  patched: Type.Optional(Type.Object({ body: Type.String(), etag: Type.String() })),
  /** True if the fault is that the node drains. Older nodes do not send it. */
  isDraining: Type.Optional(Type.Boolean()),
  fault: Type.Optional(
    Type.Object({
      code: Type.Unsafe<ErrorCode>(Type.String()),
      message: Type.String(),
      retryAfterMs: Type.Optional(Type.Number()),
      resetsAt: Type.Optional(Type.String()),
    }),
  ),
});
type Reply = Static<typeof ReplySchema>;

/** Number of account changes before a request of another node, which no number of changes equals. */
const UNKNOWN_CHANGES = -1;
/** Delay sent to a client whose session's node did not reply. */
const RETRY_AFTER_MS = 1000;

/** Forwards requests of WHIP and WHEP to the node of their session, so that any node accepts a request for any session. */
export class WhipSessions {
  readonly #service: WhipService;
  readonly #accounts: Accounts;
  readonly #node: string;
  readonly #call: RemoteCall<Call, Reply>;

  constructor(
    service: WhipService,
    accounts: Accounts,
    { node, rpc }: Cluster,
    { answerWithinMs }: Timings['whip'],
  ) {
    this.#service = service;
    this.#accounts = accounts;
    this.#node = node;
    this.#call = rpc.handle(
      'whip',
      CallSchema,
      ReplySchema,
      (call) => this.#reply(call),
      answerWithinMs,
    );
  }

  /**
   * Opens a session on the node of the peer's other half, or else here.
   * @throws {PartylineError} any reason to refuse the client
   */
  async open(request: WhipRequest, changesBefore: number): Promise<Created> {
    const offer = await this.#service.check(request);
    let node = await this.#service.findOther(request);
    if (node === undefined) {
      const opened = await this.#service.open(request, offer, changesBefore);
      if (!('elsewhere' in opened)) return opened;
      // It came to the other node at the same moment.
      node = opened.elsewhere;
    }
    const created = await this.#openAt(node, request);
    // The node of the other half has died, or takes no new clients: its session is replaced.
    return created ?? this.#service.openHere(request, offer, changesBefore);
  }

  /** @returns undefined if the node has left or died, or drains */
  async #openAt(node: string, request: WhipRequest): Promise<Created | undefined> {
    const { credentials, kind, room, peer, from, sdp } = request;
    const { account, keyId, grant, signedBy } = credentials;
    const { created } = await this.#callNode(node, {
      ask: 'open',
      kind,
      accountId: account.id,
      keyId,
      ...(grant && { grant }),
      ...(signedBy !== undefined && { signedBy }),
      room,
      peer,
      ...(from !== undefined && { from }),
      sdp,
    });
    return created;
  }

  /** @throws {PartylineError} `not_found` if there is no such session of this client; `overloaded` */
  async look(session: SessionName): Promise<void> {
    await this.#run({ ask: 'look', ...session });
  }

  /** Ends a session, as its client asks. @throws {PartylineError} `not_found`, `overloaded` */
  async end(session: SessionName): Promise<void> {
    await this.#run({ ask: 'end', ...session });
  }

  /** @throws {PartylineError} as {@link WhipService.patch} does; `overloaded` */
  async patch(session: SessionName, ifMatch: string | undefined, body: string): Promise<Patched> {
    const { patched } = await this.#run({
      ask: 'patch',
      ...session,
      ...(ifMatch !== undefined && { ifMatch }),
      body,
    });
    return patched;
  }

  async #run(call: Exclude<Call, { ask: 'open' }>): Promise<Reply> {
    const node = nodeOf(call.id);
    if (node === this.#node) return this.#do(call);
    return this.#callNode(node, call);
  }

  /**
   * @returns an empty reply to a request to open a session if the node has left or died, or takes no new clients
   * @throws {PartylineError} `not_found` for any other request, if the node has left or died; the fault of the node
   */
  async #callNode(node: string, call: Call): Promise<Reply> {
    const { replies, unreachable } = await this.#call(call, node);
    if (unreachable.length > 0) {
      const options = { retryAfterMs: RETRY_AFTER_MS };
      throw new PartylineError('overloaded', 'The node of the session does not answer.', options);
    }
    const reply = replies.get(node);
    if (call.ask === 'open' && (!reply || reply.isDraining)) return {};
    if (!reply) throw notFound();
    if (reply.fault) throw readFault(reply.fault);
    return reply;
  }

  async #reply(call: Call): Promise<Reply> {
    try {
      return await this.#do(call);
    } catch (fault) {
      return { fault: describeFault(fault) };
    }
  }

  async #do(call: Call): Promise<Reply> {
    switch (call.ask) {
      case 'open': {
        try {
          this.#service.checkDrain();
        } catch (fault) {
          return { fault: describeFault(fault), isDraining: true };
        }
        const request = {
          ...call,
          from: call.from,
          credentials: await this.#find(call),
        };
        const offer = await this.#service.check(request);
        // Forwarded once, not from node to node. The sender was identified on the other node, and
        // this one may have handled a change of the account since: it is checked in any case.
        return { created: await this.#service.openHere(request, offer, UNKNOWN_CHANGES) };
      }
      case 'look': {
        this.#service.requireSession(call);
        return {};
      }
      case 'end': {
        this.#service.end(call);
        return {};
      }
      case 'patch': {
        const patched = await this.#service.patch(call, call.ifMatch, call.body);
        return patched ? { patched } : {};
      }
    }
  }

  /** The account may have changed since the other node looked it up. */
  async #find({ accountId, keyId, grant, signedBy }: Call & { ask: 'open' }): Promise<Credentials> {
    const account = await this.#accounts.getOrThrow(accountId);
    return { account, keyId, grant, signedBy };
  }
}

function describeFault(fault: unknown): NonNullable<Reply['fault']> {
  const { code, message, retryAfterMs, resetsAt } = PartylineError.from(fault);
  return {
    code,
    message,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(resetsAt !== undefined && { resetsAt }),
  };
}

const readFault = ({ code, message, ...options }: NonNullable<Reply['fault']>) =>
  new PartylineError(code, message, options);
