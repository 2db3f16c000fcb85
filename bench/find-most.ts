/** Result of a search for the highest load. */
export type Most<Loss> = {
  /** Highest load that was borne; 0 if none was. */
  borne: number;
  /** Lowest load that was not borne, with its loss; undefined if every load was borne. */
  failed: { at: number; loss: Loss } | undefined;
};

/** Distance between the two at which the search ends, as a share of the lowest load that was not borne. */
const PRECISION = 0.1;

/**
 * Finds the highest load that is borne, up to `max`: doubles what was borne until a load is not, and then halves the distance.
 * @param first what is known of the first load
 * @param lossOf tries a load; returns what was lost, or undefined if it was borne
 */
export async function findMost<Loss>(
  first: { load: number; loss: Loss | undefined },
  max: number,
  lossOf: (load: number) => Promise<Loss | undefined>,
): Promise<Most<Loss>> {
  const most: Most<Loss> = { borne: 0, failed: undefined };
  const note = (load: number, loss: Loss | undefined) => {
    if (loss === undefined) most.borne = load;
    else most.failed = { at: load, loss };
  };
  note(first.load, first.loss);
  for (;;) {
    const next = nextLoad(most.borne, most.failed?.at, max);
    if (next === undefined) return most;
    note(next, await lossOf(next));
  }
}

function nextLoad(borne: number, failedAt: number | undefined, max: number): number | undefined {
  if (failedAt === undefined) return borne < max ? Math.min(2 * borne, max) : undefined;
  if (failedAt - borne <= Math.max(1, PRECISION * failedAt)) return undefined;
  return Math.round((borne + failedAt) / 2);
}
