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
      {/* Outside of both views, and there before its text: screen readers say what is put into it, also on the way in. */}
      <p id="notice-said" class="visually-hidden" role="status">
        {state.notice?.words}
      </p>
      <Entrance state={state} actions={actions} />
      {state.room && RoomView && <RoomView state={state} actions={actions} />}
    </main>
  );
}
