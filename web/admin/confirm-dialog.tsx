import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Question } from './overview.ts';

/** Ids of the headings that take the focus where the button that had it is gone. */
const HEADINGS: Record<Question['list'], string> = { nodes: 'nodes-title', room: 'room-name' };

/** Dialog that asks before an action that cannot be undone. Escape means no. */
export function ConfirmDialog({ question }: { question: Question }) {
  const { list, words, consequence, yes, settle } = question;
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      // A peer may leave, or a node drain, while the dialog is open; closing then leaves the focus
      // nowhere.
      const { activeElement } = document;
      const isLost = activeElement === document.body || shown?.contains(activeElement);
      if (isLost) document.getElementById(HEADINGS[list])?.focus();
    };
  }, [list]);
  const answer = (isSure: boolean) => {
    // Closing restores the focus, which removing the dialog would not.
    dialog.current?.close();
    settle(isSure);
  };
  return (
    <dialog
      id="confirm"
      aria-labelledby="confirm-question"
      aria-describedby="confirm-consequence"
      ref={dialog}
      onClose={() => settle(false)}
    >
      <h2 id="confirm-question">{words}</h2>
      <p id="confirm-consequence" class="quiet">
        {consequence}
      </p>
      <div class="actions">
        <button id="confirm-no" type="button" autofocus onClick={() => answer(false)}>
          Cancel
        </button>
        <button id="confirm-yes" type="button" class="danger" onClick={() => answer(true)}>
          {yes}
        </button>
      </div>
    </dialog>
  );
}
