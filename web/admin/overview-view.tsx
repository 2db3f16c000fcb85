import { useLayoutEffect, useRef } from 'preact/hooks';
import icon from '../icon.svg';
import { ConfirmDialog } from './confirm-dialog.tsx';
import { NodeCard } from './node-card.tsx';
import type { Overview, OverviewState } from './overview.ts';
import { RoomList } from './room-list.tsx';
import { RoomView } from './room-view.tsx';

/** The page after sign-in. */
export function OverviewView({
  overview,
  state,
  onForget,
}: {
  overview: Overview;
  state: OverviewState;
  onForget: () => void;
}) {
  const { nodes, summary, trouble, outcome, chosen, question } = state;
  const title = useRef<HTMLHeadingElement>(null);
  const nodesTitle = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => title.current?.focus(), []);

  return (
    <div id="overview">
      <header class="overview-head">
        <div>
          <p class="brand">
            <img src={icon} alt="" width="20" height="20" /> Partyline
          </p>
          <h1 id="overview-title" tabIndex={-1} ref={title}>
            Operator
          </h1>
          <p id="summary" class="quiet">
            {summary}
          </p>
        </div>
        <button id="forget" type="button" onClick={onForget}>
          Forget key
        </button>
      </header>
      {/* There before their texts are: screen readers say what is put into them. */}
      <div role="status">
        {trouble && (
          <p id="trouble" class="notice">
            {trouble}
          </p>
        )}
      </div>
      <div role="status">
        {outcome && (
          <p id="outcome" class="notice">
            {outcome}
          </p>
        )}
      </div>

      <section aria-labelledby="nodes-title">
        <h2 id="nodes-title" tabIndex={-1} ref={nodesTitle}>
          Nodes
        </h2>
        <ul id="nodes" class="plain nodes">
          {nodes.map((node) => (
            <NodeCard
              key={node.id}
              node={node}
              title={nodesTitle}
              onDrain={() => void overview.drain(node)}
            />
          ))}
        </ul>
      </section>

      <div class="halves">
        <RoomList overview={overview} state={state} />
        {chosen && <RoomView overview={overview} chosen={chosen} room={state.room} />}
      </div>
      {question && <ConfirmDialog key={question.words} question={question} />}
    </div>
  );
}
