import { join } from 'node:path';
import { createLogger, defineConfig } from 'vite';

// Pages are always built for production, even if the shell sets NODE_ENV.
process.env['NODE_ENV'] = 'production';

const logger = createLogger('warn');
const warnOnce = logger.warnOnce.bind(logger);
logger.warnOnce = (message, options) => {
  // By default the client looks for its worker files in its npm package; the page passes the ones
  // that it builds itself, so the default paths need not exist here.
  if (!message.includes("doesn't exist at build time")) warnOnce(message, options);
};

/** Parts of mediasoup-client for React Native, for its tests, for video, which no router here has, and for data channels, which nothing here uses. */
const NEVER_RUN =
  /^(?:\.\/handlers\/(?:ReactNative106|FakeHandler)|\.\/Data(?:Producer|Consumer)|\.\/test\/fakeParameters|h264-profile-level-id)$/;

/** Build of both pages: web/ → build/web/, which the gateway serves at `/` and, for operators, at `/admin/`. */
export default defineConfig({
  root: import.meta.dirname,
  // Addresses are relative, so that a proxy may serve the pages below any path.
  base: './',
  publicDir: false,
  customLogger: logger,
  logLevel: 'warn',
  resolve: {
    tsconfigPaths: true,
    // A fifth of mediasoup-client, and its log.
    alias: [
      { find: NEVER_RUN, replacement: join(import.meta.dirname, 'nothing.ts') },
      { find: /^debug$/, replacement: join(import.meta.dirname, 'no-log.ts') },
    ],
  },
  // libopus-wasm asks for it under Node alone.
  worker: { rolldownOptions: { external: ['node:module'] } },
  build: {
    outDir: join(import.meta.dirname, '../build/web'),
    target: 'es2022',
    sourcemap: true,
    // The content security policy of the pages allows no data URLs for scripts and workers.
    assetsInlineLimit: 0,
    modulePreload: {
      polyfill: false,
      // Later parts are requested by the scripts themselves.
      resolveDependencies: (_, files, { hostType }) => (hostType === 'html' ? files : []),
    },
    rolldownOptions: {
      input: {
        page: join(import.meta.dirname, 'index.html'),
        admin: join(import.meta.dirname, 'admin/index.html'),
      },
    },
  },
});
