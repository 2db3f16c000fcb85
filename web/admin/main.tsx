import { render } from 'preact';
import { Api, Refusal } from './api.ts';
import { Entrance } from './entrance.tsx';
import { OverviewView } from './overview-view.tsx';
import { Overview } from './overview.ts';

/** Entry point of the operator's page: asks for the key, then shows the overview. */

const STORED_AS = 'partyline-operator';
/** Time after which a key that nobody has refused is tried again, ms. */
const RETRY_MS = 3000;

document.querySelector('#not-loaded')?.remove();
const root = document.createElement('div');
document.body.append(root);

let overview: Overview | undefined;
/** Requests with the key that was given last. */
let latest: Api | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;
/** True while a key is being checked. */
let isBusy = false;
/** Reason for which the last key was or became invalid, or could not be checked; empty if there is none. */
let error = '';
/** True if the gateway itself has refused the last key. */
let isRefused = false;

const known = recall();
if (known) void unlock(known);
else draw();

function draw(): void {
  const entranceShown = overview === undefined;
  render(
    <main>
      <Entrance
        isShown={entranceShown}
        isBusy={isBusy}
        error={error}
        isRefused={isRefused}
        onKey={(key) => void unlock(key)}
      />
      {overview && (
        <OverviewView overview={overview} state={overview.state} onForget={() => lock()} />
      )}
    </main>,
    root,
  );
}

/** Signs in with a key, and tries again until the gateway itself accepts or refuses it. @param isRetry leaves the form as it is */
async function unlock(key: string, isRetry = false): Promise<void> {
  clearTimeout(retry);
  latest?.close();
  const api = (latest = new Api(key));
  isBusy = !isRetry;
  draw();
  try {
    await api.self();
  } catch (fault) {
    if (latest !== api) return;
    if (fault instanceof Refusal && fault.isKeyRefused) return lock(reasonOf(fault));
    isBusy = false;
    isRefused = false;
    error = `${reasonOf(fault)} Trying again.`;
    retry = setTimeout(() => void unlock(key, true), RETRY_MS);
    draw();
    return;
  }
  if (latest !== api) return;
  remember(key);
  isBusy = false;
  isRefused = false;
  error = '';
  overview = new Overview(api, { changed: draw, locked: lock });
  draw();
}

/** Signs out. */
function lock(reason = ''): void {
  overview?.close();
  overview = undefined;
  remember(undefined);
  isBusy = false;
  isRefused = reason !== '';
  error = reason;
  draw();
}

function reasonOf(fault: unknown): string {
  if (!(fault instanceof Refusal)) return 'The gateway does not answer.';
  return fault.code === 'unauthorized'
    ? 'This is not the operator key of this gateway.'
    : fault.message;
}

/** Keeps the key for a reload of this tab: in sessionStorage, which goes with it. */
function remember(key: string | undefined): void {
  try {
    if (key === undefined) sessionStorage.removeItem(STORED_AS);
    else sessionStorage.setItem(STORED_AS, key);
  } catch {
    // The browser forbids storage: then it must be pasted again.
  }
}

function recall(): string | null {
  try {
    return sessionStorage.getItem(STORED_AS);
  } catch {
    return null;
  }
}
