/**
 * Set-up: brings a machine that has Node, npm and apt to where `npm start` and `npm test` can run.
 * npm's scripts call it first, and then start their program by `exec`, with a program between (`setsid`, `env`) that looks up `node`
 * anew: the shell may have remembered the machine's own. They are not scripts of their own (`prestart`), which npm leaves out under
 * `ignore-scripts=true`. Every step first looks whether it is done already, so a second run takes a fraction of a second, and an
 * interrupted run can be repeated.
 *
 * Plain JavaScript that imports only Node's own modules: set-up runs under the machine's Node, which may be
 * older than the project's, and before any dependency is installed.
 *
 * `--for-tests` also provides what only the tests need: browsers, network namespaces, and Redis even with REDIS_URL;
 * `--for-deployments` also the servers and builders of `npm run test:deploy`. `--end-with-parent=PID` ends set-up when its parent process
 * has ended: the shell of npm's scripts hands on no signals.
 * `--only-check` installs nothing, for programs that run beside a gateway: npm would replace the packages that it has loaded. It fails
 * if the packages are others than those of package-lock.json.
 */
import { installDependencies, requireDependencies } from './set-up/dependencies.mjs';
import { asFailure } from './set-up/failure.mjs';
import { requireNode } from './set-up/node-version.mjs';
import { provideDeploymentTools } from './set-up/deployment-tools.mjs';
import { provideMediaWorker } from './set-up/media-worker.mjs';
import { provideOpus } from './set-up/opus.mjs';
import { provideRedis } from './set-up/redis.mjs';
import { printFailure } from './set-up/log.mjs';
import { endWithParent } from './set-up/run.mjs';
import { provideTestTools } from './set-up/test-tools.mjs';
import { buildWebPage } from './set-up/web-page.mjs';

const forDeployments = process.argv.includes('--for-deployments');
const forTests = forDeployments || process.argv.includes('--for-tests');
const parent = process.argv.find((word) => word.startsWith('--end-with-parent='))?.split('=')[1];

if (parent !== undefined) endWithParent(Number(parent));

async function setUp() {
  await installDependencies();
  await provideMediaWorker();
  await provideOpus(forTests);
  if (forTests || !process.env.REDIS_URL) await provideRedis();
  if (forTests) await provideTestTools();
  if (forDeployments) await provideDeploymentTools();
  await buildWebPage();
}

try {
  requireNode();
  if (process.argv.includes('--only-check')) requireDependencies();
  else await setUp();
} catch (error) {
  printFailure(asFailure(error).message);
  process.exitCode = 1;
}
