import type { TargetedSubmitEvent } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import icon from '../icon.svg';

/** The form that asks for the operator key. */
export function Entrance({
  isShown,
  isBusy,
  error,
  isRefused,
  onKey,
}: {
  isShown: boolean;
  isBusy: boolean;
  error: string;
  /** True if the gateway itself has refused the key. */
  isRefused: boolean;
  onKey: (key: string) => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  // No key stays in the field.
  useLayoutEffect(() => {
    if (!field.current || isBusy) return;
    field.current.value = '';
    if (isShown) field.current.focus();
  }, [isShown, isBusy]);

  const submit = (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    onKey(field.current?.value.trim() ?? '');
  };

  return (
    <section id="entrance" aria-labelledby="entrance-title" hidden={!isShown}>
      <header class="masthead">
        <img src={icon} alt="" width="44" height="44" />
        <div>
          <h1 id="entrance-title">Partyline</h1>
          <p class="quiet">The operator’s page: nodes, rooms and who is in them.</p>
        </div>
      </header>
      {error && (
        <p id="entrance-error" class="error" role="alert">
          {error}
        </p>
      )}
      {/* The field has no name: no submit can put the key into an address. */}
      <form id="form" method="post" autocomplete="off" onSubmit={submit}>
        <fieldset id="fields" disabled={isBusy}>
          <label for="operator-key">Operator key</label>
          <input
            id="operator-key"
            type="password"
            required
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            aria-describedby="operator-key-hint"
            aria-invalid={isRefused}
            ref={field}
          />
          <p id="operator-key-hint" class="hint">
            The <code>OPERATOR_KEY</code> of the gateway. It stays in this tab and is forgotten when
            you close it.
          </p>
          <div class="actions">
            <button class="primary" type="submit">
              Open
            </button>
          </div>
        </fieldset>
      </form>
    </section>
  );
}
