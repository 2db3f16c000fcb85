/** The RTP clock of Opus runs at 48 kHz, whatever is in the packets (RFC 7587 §4.1): a timestamp counts these samples. */
export const SAMPLES_PER_MS = 48;
