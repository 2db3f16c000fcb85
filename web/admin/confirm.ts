import { element } from '../element.ts';

/** Asks before something is done that cannot be undone; resolves to what is decided. Escape is no. */
export function confirmed(question: string, consequence: string, yes: string): Promise<boolean> {
  const dialog = element('confirm', HTMLDialogElement);
  element('confirm-question', HTMLElement).textContent = question;
  element('confirm-consequence', HTMLElement).textContent = consequence;
  element('confirm-yes', HTMLButtonElement).textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
