import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { AUDIO_FORMAT_PATTERN, INPUT_FORMAT_PATTERN } from '../audio/format.ts';

/** Pattern of `default_audio` (docs/protocol.md, "Audio formats"); an empty text removes the format. */
const HEARD_FORMAT = `^(${AUDIO_FORMAT_PATTERN})?$`;
/** Pattern of `pinned_audio`; an empty text removes the format. */
const SENT_FORMAT = `^(${INPUT_FORMAT_PATTERN})?$`;
/** Pattern of a webhook URL. A user and a password are refused, because they would be shown with the account; an empty text removes the URL. */
const WEBHOOK_URL = '^(https?://[^\\s/?#@\\\\]+([/?#]\\S*)?)?$';

/** Fields of an account that its clients are sent (docs/protocol.md §1). */
export const AccountSchema = Type.Object({
  id: Type.Integer(),
  name: Type.String({ minLength: 1, maxLength: 200 }),
  email: Type.String({ maxLength: 254, pattern: '^[^\\s@]+@[^\\s@]+$' }),
  plan: Type.Enum(['free', 'starter', 'pro']),
  status: Type.Enum(['active', 'suspended', 'closed']),
});

/** All fields of an account. */
export const StoredAccountSchema = Type.Object({
  ...AccountSchema.properties,
  created_at: Type.Optional(Type.String()),
  /** Format that peers hear that have neither named a format nor sent audio; Opus by default. */
  default_audio: Type.Optional(Type.String({ pattern: HEARD_FORMAT })),
  /** Format that peers send that have not named one, if the operator knows it. */
  pinned_audio: Type.Optional(Type.String({ pattern: SENT_FORMAT })),
  /** URL to which its events are sent (docs/operations/accounts.md, "Webhooks"). */
  webhook_url: Type.Optional(Type.String({ maxLength: 2048, pattern: WEBHOOK_URL })),
});

/** Fields of an account after it was created or changed. */
export const ChangedAccountSchema = Type.Object({
  ...StoredAccountSchema.properties,
  /** Secret that signs the webhooks of the account from now on; it is shown only when the URL is set. */
  webhook_secret: Type.Optional(Type.String()),
});

type Fields = Static<typeof StoredAccountSchema>;
const validator = Compile(StoredAccountSchema);

/** Reads the fields of an account. A stored format that is no longer accepted is left out, so that the account can be read and changed. */
export function parseAccount(fields: Record<string, string>): Fields | undefined {
  if (fields['id'] === undefined) return undefined;
  const account = { ...fields, id: Number(fields['id']) };
  if (validator.Check(account)) return account;
  const { default_audio: heard, pinned_audio: sent, ...others } = account as Partial<Fields>;
  return validator.Parse({
    ...others,
    ...(heard !== undefined && new RegExp(HEARD_FORMAT).test(heard) && { default_audio: heard }),
    ...(sent !== undefined && new RegExp(SENT_FORMAT).test(sent) && { pinned_audio: sent }),
  });
}
