/** Makers of messages that attackers send. */

/** Yields the same messages again and again. */
export function* repeat(...messages: (string | Buffer | undefined)[]) {
  for (;;) yield* messages;
}

/** Yields messages that are made of their number, without end. */
export function* numbered(make: (n: number) => string | Buffer) {
  for (let n = 0; ; n += 1) yield make(n);
}

export const json = (message: object) => JSON.stringify(message);
