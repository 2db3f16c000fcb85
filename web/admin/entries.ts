import { element, part } from '../element.ts';

/** Keeps a number and its unit on one line. */
export const NBSP = '\u00a0';

/** A list of the page: one entry for each item, kept and changed in place, so that a reader and the focus keep their place. */
export class Entries<T> {
  readonly #list: Element;
  readonly #template: HTMLTemplateElement;
  readonly #keyOf: (item: T) => string;
  readonly #create: (entry: HTMLElement, item: T) => (item: T) => void;
  readonly #entries = new Map<string, { entry: HTMLElement; update: (item: T) => void }>();

  /** @param create called for each new entry; what it returns shows what is known of the item now */
  constructor(
    list: Element,
    template: string,
    keyOf: (item: T) => string,
    create: (entry: HTMLElement, item: T) => (item: T) => void,
  ) {
    this.#list = list;
    this.#template = element(template, HTMLTemplateElement);
    this.#keyOf = keyOf;
    this.#create = create;
  }

  show(items: T[]): void {
    const gone = new Set(this.#entries.keys());
    for (const item of items) gone.delete(this.#keyOf(item));
    for (const key of gone) {
      this.#entries.get(key)?.entry.remove();
      this.#entries.delete(key);
    }
    for (const [index, item] of items.entries()) {
      const { entry, update } = this.#entries.get(this.#keyOf(item)) ?? this.#add(item);
      const standing = this.#list.children[index] ?? null;
      if (standing !== entry) this.#list.insertBefore(entry, standing);
      update(item);
    }
  }

  #add(item: T) {
    const fragment = this.#template.content.cloneNode(true) as DocumentFragment;
    const entry = part(fragment, 'li', HTMLElement);
    const added = { entry, update: this.#create(entry, item) };
    this.#entries.set(this.#keyOf(item), added);
    return added;
  }
}

/** Says something in a part of an entry; what it says already is left alone, so that it can be selected. */
export function say(parent: ParentNode, selector: string, text: string | number): void {
  const said = part(parent, selector, HTMLElement);
  if (said.textContent !== String(text)) said.textContent = String(text);
}

/** How long the bar of a meter in an entry is: 0 to 1. */
export function measure(parent: ParentNode, share: number): void {
  const bounded = Math.min(1, Math.max(0, share));
  part(parent, '.meter', HTMLElement).style.setProperty('--share', bounded.toFixed(2));
}

/** A button in an entry that does something. */
export function onPress(parent: ParentNode, selector: string, act: () => void): HTMLButtonElement {
  const button = part(parent, selector, HTMLButtonElement);
  button.addEventListener('click', act);
  return button;
}
