/** Installs libopus, which encodes at half the cost of the WebAssembly build that the gateway uses without it. */
import { spawnSync } from 'node:child_process';
import { provide } from './apt.mjs';
import { SetUpFailure } from './failure.mjs';
import { print } from './log.mjs';

/** @param {boolean} isNeeded true for tests, which hear both builds: set-up then fails without libopus */
export async function provideOpus(isNeeded) {
  try {
    await provide('opus', { libopus0: hasLibopus });
  } catch (error) {
    if (isNeeded || !(error instanceof SetUpFailure)) throw error;
    print('opus', `${error.message} Until then Opus is encoded in WebAssembly, at twice the cost.`);
  }
}

function hasLibopus() {
  const { stdout } = spawnSync('/sbin/ldconfig', ['-p'], { encoding: 'utf8' });
  return (stdout ?? '').includes('libopus.so.0');
}
