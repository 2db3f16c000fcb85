import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isOfThisMachine } from './invite.ts';
import type { ShownInvitation } from './page-state.ts';

/** The dialog that shows an invitation: a QR code, and the link to copy. */
export function InvitationDialog({
  invitation: { url, code, expiresAt },
  onClose,
}: {
  invitation: ShownInvitation;
  onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const link = useRef<HTMLInputElement>(null);
  const [outcome, setOutcome] = useState('');
  useLayoutEffect(() => {
    dialog.current?.showModal();
    link.current?.select();
  }, []);

  const copy = async () => {
    link.current?.select();
    try {
      await navigator.clipboard.writeText(url);
      setOutcome('The link has been copied.');
    } catch {
      // Browsers give no clipboard to pages over plain HTTP.
      setOutcome('The link is selected: copy it with the keyboard.');
    }
  };
  const until = new Date(expiresAt).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });

  return (
    <dialog id="invitation" aria-labelledby="invitation-title" ref={dialog} onClose={onClose}>
      <h2 id="invitation-title">Invite</h2>
      <img id="invitation-code" src={code} alt="QR code of the link" width="280" height="280" />
      {isOfThisMachine(url) && (
        <p id="invitation-local" class="notice">
          This link works on this machine only. To invite others, open the page at an address that
          their devices can reach.
        </p>
      )}
      <label for="invitation-link">Link</label>
      <input id="invitation-link" type="text" readOnly value={url} ref={link} />
      <p id="invitation-status" class="hint" role="status">
        {outcome || `Anyone with this link can join until ${until}.`}
      </p>
      <div class="actions">
        <button id="invitation-copy" type="button" class="primary" onClick={() => void copy()}>
          Copy link
        </button>
        {/* Closing gives the focus back to where it was, which taking the dialog away would not. */}
        <button id="invitation-close" type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
