import type { NodeDescription, NodeList } from '../../src/operator/schemas.ts';

/** A node and its last known state; undefined if it never answered. */
export type KnownNode = {
  id: string;
  state: NodeDescription['state'] | 'unreachable' | 'gone';
  description: NodeDescription | undefined;
  /** Time at which it was found missing, ms since 1970 by the clock of this browser. */
  goneWallMs: number | undefined;
};

/** Time for which a node that has gone is still shown. */
const SHOWN_GONE_MS = 60_000;

/** Merges the known nodes with the present list, which marks missing ones as gone; pure. */
export function followNodes(known: KnownNode[], list: NodeList, wallMs: number): KnownNode[] {
  const told = new Map(list.nodes.map((node) => [node.id, node]));
  const silent = new Set(list.unreachable);
  const before = known
    .map((node): KnownNode => {
      const description = told.get(node.id);
      if (description) return shown(description);
      if (silent.has(node.id)) return { ...node, state: 'unreachable', goneWallMs: undefined };
      return { ...node, state: 'gone', goneWallMs: node.goneWallMs ?? wallMs };
    })
    .filter(({ goneWallMs }) => goneWallMs === undefined || wallMs - goneWallMs < SHOWN_GONE_MS);
  const ids = new Set(before.map(({ id }) => id));
  const answering = list.nodes.filter(({ id }) => !ids.has(id)).map(shown);
  const others = list.unreachable
    .filter((id) => !ids.has(id))
    .map((id): KnownNode => ({
      id,
      state: 'unreachable',
      description: undefined,
      goneWallMs: undefined,
    }));
  return [...before, ...answering, ...others];
}

const shown = (description: NodeDescription): KnownNode => ({
  id: description.id,
  state: description.state,
  description,
  goneWallMs: undefined,
});
