/** Maximum length of one message of a client, bytes (docs/protocol.md, 1009). */
export const MAX_MESSAGE_BYTES = 64 * 1024;
