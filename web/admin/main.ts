import { element } from '../element.ts';
import { Api, Refusal } from './api.ts';
import { Overview } from './overview.ts';

/** The operator's page: asks for the key, and shows what it opens. */

const STORED_AS = 'partyline-operator';

const entrance = element('entrance', HTMLElement);
const fields = element('fields', HTMLFieldSetElement);
const field = element('operator-key', HTMLInputElement);
const error = element('entrance-error', HTMLElement);
const overview = new Overview((reason) => lock(reason));

/** Lets in who has the right key. */
async function unlock(key: string): Promise<void> {
  const api = new Api(key);
  fields.disabled = true;
  try {
    await api.self();
  } catch (fault) {
    lock(reasonOf(fault));
    return;
  }
  remember(key);
  entrance.hidden = true;
  overview.open(api);
}

/** Back to the entrance, with no key. */
function lock(reason = ''): void {
  overview.close();
  remember(undefined);
  entrance.hidden = false;
  fields.disabled = false;
  error.textContent = reason;
  error.hidden = reason === '';
  field.setAttribute('aria-invalid', String(reason !== ''));
  field.value = '';
  field.focus();
}

function reasonOf(fault: unknown): string {
  if (!(fault instanceof Refusal)) return 'The gateway does not answer.';
  return fault.status === 401 ? 'That is not the operator key of this gateway.' : fault.message;
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

element('form', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  void unlock(field.value.trim());
});
element('forget', HTMLButtonElement).addEventListener('click', () => lock());

const known = recall();
if (known) void unlock(known);
else lock();
