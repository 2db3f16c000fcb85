/**
 * Options by which the files that run outside the page are built: each is complete in itself, because
 * bundlers copy it as it is.
 */
export const OUTSIDE_THE_PAGE = {
  entryPoints: {
    worklet: 'src/worklet/processors.ts',
    'decoder-worker': 'src/websocket/decoder-worker.ts',
    'encoder-worker': 'src/websocket/encoder-worker.ts',
  },
  format: /** @type {const} */ ('iife'),
  // libopus-wasm asks for both under Node alone.
  external: ['node:module'],
  logOverride: { 'empty-import-meta': /** @type {const} */ ('silent') },
};
