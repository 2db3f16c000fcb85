/** True for a message of one byte repeated: what every format of samples makes of nothing at all. */
export function isDigitalSilence(message: Buffer): boolean {
  for (let i = 1; i < message.length; i += 1) if (message[i] !== message[0]) return false;
  return message.length > 8;
}
