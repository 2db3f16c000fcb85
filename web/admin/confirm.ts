import { element } from '../element.ts';

/** Answers the question that is open; undefined while none is. */
let settle: (() => void) | undefined;

/** Asks before something is done that cannot be undone; resolves to what is decided. Escape is no. */
export function confirmed(question: string, consequence: string, yes: string): Promise<boolean> {
  const dialog = element('confirm', HTMLDialogElement);
  // The one before may have been answered, and its event be under way.
  settle?.();
  element('confirm-question', HTMLElement).textContent = question;
  element('confirm-consequence', HTMLElement).textContent = consequence;
  element('confirm-yes', HTMLButtonElement).textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    const onClose = () => {
      // The event comes a moment later than the closing: it may be that of the question before.
      if (!dialog.open) settle?.();
    };
    settle = () => {
      settle = undefined;
      dialog.removeEventListener('close', onClose);
      resolve(!dialog.open && dialog.returnValue === 'yes');
    };
    dialog.addEventListener('close', onClose);
  });
}
