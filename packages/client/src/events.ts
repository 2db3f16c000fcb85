/** The events of one object, typed: an EventTarget behind two methods. */
export class Events<Map extends Record<string, unknown>> {
  readonly #target = new EventTarget();

  /** Listens until `signal` aborts, or the returned function is called. */
  on<Name extends keyof Map & string>(
    name: Name,
    listener: (detail: Map[Name]) => void,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    // Only emit() below dispatches on this target, and it takes the detail that belongs to the
    // name.
    const handler = (event: Event) => listener((event as CustomEvent<Map[Name]>).detail);
    this.#target.addEventListener(name, handler, options);
    return () => this.#target.removeEventListener(name, handler);
  }

  emit<Name extends keyof Map & string>(name: Name, detail: Map[Name]): void {
    this.#target.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
