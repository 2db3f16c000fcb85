/** Timestamp units of Opus per ms: its RTP clock runs at 48 kHz for packets of any bandwidth (RFC 7587 §4.1). */
export const SAMPLES_PER_MS = 48;
