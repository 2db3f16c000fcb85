/** How the files are built that run outside the page: each whole in itself, as bundlers copy them. */
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
