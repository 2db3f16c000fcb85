import type { AudioAssets } from 'partyline-client';
import decoder from '../packages/client/src/websocket/decoder-worker.ts?worker&url';
import encoder from '../packages/client/src/websocket/encoder-worker.ts?worker&url';
import worklet from '../packages/client/src/worklet/processors.ts?worker&url';

/** Addresses of the client's files that run outside the page, built with it. */
export const SOUND_FILES: AudioAssets = { decoder, encoder, worklet };
