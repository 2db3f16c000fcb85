import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { DeviceMenus } from './device-menus.tsx';
import icon from './icon.svg';
import { InvitationDialog } from './invitation-dialog.tsx';
import type { MicrophoneState, Notice, ViewProps } from './page-state.ts';
import { People } from './people.tsx';
import { useFocusButton } from './use-focus-button.ts';

const MUTE_LABELS: Record<MicrophoneState, string> = {
  on: 'Mute',
  muted: 'Unmute',
  off: 'Use mic',
};

/** The room: its people, and what a reader may do in it. */
export function RoomView({ state, actions }: ViewProps) {
  const { room, people, isAlone, comings, microphone, notice, invitation } = state;
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => title.current?.focus(), []);
  const closeNotice = () => {
    // The button that was pressed goes with the notice.
    title.current?.focus();
    actions.clearNotice();
  };

  return (
    <section id="room-view" aria-labelledby="room-title" data-away={room?.isAway}>
      <header class="room-head">
        <p class="brand">
          <img src={icon} alt="" width="20" height="20" /> Partyline
        </p>
        <h1 id="room-title" tabIndex={-1} ref={title}>
          {room?.title}
        </h1>
        <p id="room-status" class="quiet" role="status">
          {room?.status}
        </p>
        {room?.play && <PlayButton play={room.play} title={title} />}
        <p id="room-way" class="quiet" role="status">
          {room?.way}
        </p>
      </header>

      {notice && <NoticeBox notice={notice} onClose={closeNotice} />}

      <People people={people} onVolume={actions.setVolume} />
      {isAlone && (
        <p id="alone" class="quiet">
          Nobody else is here yet.{room?.mayInvite && ' Press Invite to get a link for others.'}
        </p>
      )}

      <div class="controls" role="group" aria-label="Your microphone and the room">
        <button
          id="mute"
          type="button"
          data-microphone={microphone}
          onClick={actions.pressMicrophone}
        >
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d="M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3zM6 11a6 6 0 0 0 12 0M12 17v4" />
            <path class="slash" d="M4 4l16 16" />
          </svg>
          <span id="mute-label">{MUTE_LABELS[microphone]}</span>
        </button>
        {microphone !== 'off' && <OwnLevel measure={actions.ownLevel} />}
        {room?.mayInvite && (
          <button id="invite" type="button" onClick={actions.invite}>
            Invite
          </button>
        )}
        <button id="leave" type="button" class="leave" onClick={actions.leave}>
          Leave
        </button>
      </div>
      <DeviceMenus
        microphone={microphone}
        devices={state.devices}
        onMicrophone={actions.chooseMicrophone}
        onSpeaker={actions.chooseSpeaker}
        onGone={actions.forgetDevice}
      />
      <p id="comings" class="visually-hidden" role="log">
        {comings}
      </p>
      {invitation && <InvitationDialog invitation={invitation} onClose={actions.closeInvitation} />}
    </section>
  );
}

/** The click for which the browser waits. @param title takes the focus when the button goes */
function PlayButton({ play, title }: { play: () => void; title: RefObject<HTMLElement | null> }) {
  const button = useFocusButton(title);
  return (
    <button id="play" type="button" class="primary" ref={button} onClick={play}>
      Play
    </button>
  );
}

function NoticeBox({ notice, onClose }: { notice: Notice; onClose: () => void }) {
  return (
    <div id="notice" class="notice">
      <p id="notice-text">{notice.words}</p>
      <button id="notice-close" type="button" class="bare" aria-label="Dismiss" onClick={onClose}>
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M6 6l12 12M18 6L6 18" />
        </svg>
      </button>
    </div>
  );
}

/** The meter of the own microphone, drawn with every picture and past the state. @param measure returns 0 to 1 */
function OwnLevel({ measure }: { measure: () => number }) {
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let request = 0;
    const draw = () => {
      bar.current?.style.setProperty('--level', measure().toFixed(2));
      request = requestAnimationFrame(draw);
    };
    draw();
    return () => cancelAnimationFrame(request);
  }, [measure]);
  return (
    <div class="level" aria-hidden="true">
      <div id="own-level" ref={bar} />
    </div>
  );
}
