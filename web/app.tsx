import type { ComponentType } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { Entrance } from './entrance.tsx';
import type { ViewProps } from './page-state.ts';

/** The page: the entrance, or the room. @param RoomView loaded by the time a room is shown */
export function App({
  state,
  actions,
  RoomView,
}: ViewProps & { RoomView: ComponentType<ViewProps> | undefined }) {
  const title = state.room?.title;
  useLayoutEffect(() => {
    document.title = title === undefined ? 'Partyline' : `${title} · Partyline`;
  }, [title]);
  return (
    <main>
      <Entrance state={state} actions={actions} />
      {state.room && RoomView && <RoomView state={state} actions={actions} />}
    </main>
  );
}
