/**
 * Returns whether a text can be a key: a key is sent in a header, which allows no other characters (RFC 9110
 * §5.5).
 */
export const mayBeKey = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);
