import type { RefObject, TargetedSubmitEvent } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import icon from './icon.svg';
import type { Entry, PageState, ViewProps } from './page-state.ts';

/** The form that leads into a room; with an invitation it asks for a name alone. */
export function Entrance({ state, actions }: ViewProps) {
  const { fields, invite, error, isKeyWrong, progress } = state;
  const isShown = state.room === undefined;
  const isBusy = progress !== undefined;
  const isGuest = invite !== '';
  const [title, form, key, join, cancel] = [
    useRef<HTMLHeadingElement>(null),
    useRef<HTMLFormElement>(null),
    useRef<HTMLInputElement>(null),
    useRef<HTMLButtonElement>(null),
    useRef<HTMLButtonElement>(null),
  ];
  useEntranceFocus({ isShown, isBusy, isKeyWrong }, { title, form, key, join, cancel });
  const submit = (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    actions.enter(entryOf(fields, event.submitter, invite));
  };

  return (
    <section id="entrance" aria-labelledby="entrance-title" hidden={!isShown}>
      <Masthead title={title} />

      {error && (
        <p id="entrance-error" class="error" role="alert">
          {error}
        </p>
      )}
      {isGuest && (
        <p id="invited" class="invited">
          You have been invited. Enter your name to join.
        </p>
      )}

      {/* The fields have no names: no submit can put the key into an address. */}
      <form id="form" method="post" autocomplete="off" onSubmit={submit} ref={form}>
        <fieldset id="fields" disabled={isBusy}>
          {!isGuest && <RoomField room={fields.room} edit={actions.edit} />}
          <PeerField peer={fields.peer} edit={actions.edit} />
          {!isGuest && (
            <KeyField apiKey={fields.apiKey} isWrong={isKeyWrong} edit={actions.edit} input={key} />
          )}

          <div class="actions">
            <button id="join" class="primary" type="submit" value="speak" ref={join}>
              Join
            </button>
            <button id="listen" type="submit" value="listen">
              Join and only listen
            </button>
            <button id="try" type="submit" value="try">
              Hear yourself
            </button>
          </div>
        </fieldset>
        <div id="progress" class="actions" hidden={!isBusy}>
          <p id="entrance-status" class="quiet" role="status">
            {progress}
          </p>
          <button id="cancel" type="button" onClick={actions.leave} ref={cancel}>
            Cancel
          </button>
        </div>
      </form>
    </section>
  );
}

type Edit = { edit: ViewProps['actions']['edit'] };

/** Returns what is entered with one of the form's buttons. */
function entryOf(
  { apiKey, room, peer }: PageState['fields'],
  submitter: HTMLElement | null,
  invite: string,
): Entry {
  const button = submitter instanceof HTMLButtonElement ? submitter.value : '';
  return {
    apiKey: apiKey.trim(),
    room: room.trim(),
    peer: peer.trim(),
    listenOnly: button === 'listen',
    isTrial: button === 'try',
    invite,
  };
}

/** Sets the focus where the reader continues: on a wrong key, on the first empty field, or on the heading after a room. */
function useEntranceFocus(
  { isShown, isBusy, isKeyWrong }: { isShown: boolean; isBusy: boolean; isKeyWrong: boolean },
  {
    title,
    form,
    key,
    join,
    cancel,
  }: {
    title: RefObject<HTMLHeadingElement | null>;
    form: RefObject<HTMLFormElement | null>;
    key: RefObject<HTMLInputElement | null>;
    join: RefObject<HTMLButtonElement | null>;
    cancel: RefObject<HTMLButtonElement | null>;
  },
): void {
  const wasHidden = useRef(false);
  useLayoutEffect(() => {
    const cameFromRoom = wasHidden.current;
    wasHidden.current = !isShown;
    if (!isShown) return;
    if (isBusy) cancel.current?.focus();
    else if (isKeyWrong) key.current?.focus();
    else if (cameFromRoom) title.current?.focus();
    else {
      const inputs = [...(form.current?.querySelectorAll('input') ?? [])];
      (inputs.find(({ value }) => value === '') ?? join.current)?.focus();
    }
  }, [isShown, isBusy, isKeyWrong]);
}

function Masthead({ title }: { title: RefObject<HTMLHeadingElement | null> }) {
  return (
    <header class="masthead">
      <img src={icon} alt="" width="44" height="44" />
      <div>
        <h1 id="entrance-title" tabIndex={-1} ref={title}>
          Partyline
        </h1>
        <p class="quiet">One voice room for browsers and WebSocket clients.</p>
      </div>
    </header>
  );
}

function RoomField({ room, edit }: Edit & { room: string }) {
  return (
    <div id="room-field">
      <label for="room">Room</label>
      <input
        id="room"
        type="text"
        required
        maxLength={128}
        pattern="(?!__(?!echo__$)).*\S.*"
        title="1 to 128 characters; in __echo__ you hear yourself, other names that begin with __ are reserved"
        autocapitalize="none"
        spellcheck={false}
        placeholder="kitchen"
        value={room}
        onInput={({ currentTarget }) => edit({ room: currentTarget.value })}
      />
    </div>
  );
}

function PeerField({ peer, edit }: Edit & { peer: string }) {
  return (
    <>
      <label for="peer">Your name</label>
      <input
        id="peer"
        type="text"
        required
        maxLength={128}
        pattern="(?!__).*\S.*"
        title="1 to 128 characters; names that begin with __ are reserved"
        spellcheck={false}
        placeholder="Ada"
        value={peer}
        onInput={({ currentTarget }) => edit({ peer: currentTarget.value })}
      />
    </>
  );
}

function KeyField({
  apiKey,
  isWrong,
  edit,
  input,
}: Edit & { apiKey: string; isWrong: boolean; input: RefObject<HTMLInputElement | null> }) {
  return (
    <div id="key-field">
      <label for="api-key">API key</label>
      <input
        id="api-key"
        type="password"
        required
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        aria-describedby="api-key-hint"
        aria-invalid={isWrong}
        value={apiKey}
        onInput={({ currentTarget }) => edit({ apiKey: currentTarget.value })}
        ref={input}
      />
      <p id="api-key-hint" class="hint">
        Your operator has one (<code>npm start</code> prints a demo key). It stays in this tab until
        you close it.
      </p>
    </div>
  );
}
