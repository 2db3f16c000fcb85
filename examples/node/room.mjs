/** A place in a room, over a WebSocket that is opened again when it breaks. Used by bot.mjs and pipe.mjs; needs Node 22 or newer, and no package. */

/** Time without a message after which a connection counts as dead: the gateway sends `stats` every 5 s. */
const SILENT_MS = 15_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 20_000;
/** Code with which a client closes that means to come back. */
const LOST = 4408;
/** Returns whether a close code is one that the gateway uses after an error; with any other, a proxy or the network ended the connection. */
const isOfGateway = (/** @type {number} */ code) =>
  [1009, 1011, 1012, 1013].includes(code) || code >= 4000;
/** Reasons for which not even the first connection opens; Node does not tell which. */
const UNREACHABLE = 'no gateway answers there, or Node does not trust its certificate.';
/** Reason of a close that no error comes before. */
const BROKEN = { message: 'The connection broke.', retryable: true, retry_after_ms: 0 };

/**
 * Enters a room, and comes back for as long as the gateway says that it makes sense to try, if it could be reached at first.
 *
 * @param {{ url: string, apiKey: string, room: string, peer: string, audio: string }} place `url` of the gateway, http or https
 * @param {{ onSound?: (frame: Uint8Array) => void, onMessage?: (message: any) => void, onEnd: (reason: string) => void }} handlers
 */
export function enterRoom({ url, apiKey, room, peer, audio }, { onSound, onMessage, onEnd }) {
  const query = new URLSearchParams({ room, peer, api_key: apiKey, audio, stats: 'true' });
  // Beside the gateway's page, which may be below a path of its host.
  const address = `${url.replace(/^http/, 'ws').replace(/\/+$/, '')}/ws?${query}`;
  let pauseMs = FIRST_PAUSE_MS;
  let hasConnected = false;
  /** @type {WebSocket} */
  let socket;
  /** @type {NodeJS.Timeout} */
  let timer;

  const connect = () => {
    const opened = new WebSocket(address);
    opened.binaryType = 'arraybuffer';
    /** The gateway's last word, if it was an error: the reason, if it closes then. */
    let fault = BROKEN;
    let isInRoom = false;
    const onClosed = (/** @type {number} */ code) => {
      clearTimeout(timer);
      // If the room is refused, this program closes: the error stays the reason.
      if (isInRoom && !isOfGateway(code)) fault = BROKEN;
      opened.onmessage = null;
      opened.onclose = null;
      if (!hasConnected) return onEnd(`Cannot connect to ${url}: ${UNREACHABLE}`);
      if (!fault.retryable) return onEnd(fault.message);
      const waitMs = Math.max(fault.retry_after_ms ?? 0, pauseMs * (0.5 + Math.random()));
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      console.error(`${fault.message} Trying again in ${Math.round(waitMs)} ms.`);
      timer = setTimeout(connect, waitMs);
    };
    const giveUp = () => {
      opened.close(LOST);
      onClosed(1006);
    };
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(giveUp, SILENT_MS);
    };
    opened.onopen = () => (hasConnected = true);
    opened.onclose = ({ code }) => onClosed(code);
    opened.onmessage = ({ data }) => {
      watch();
      fault = BROKEN;
      if (typeof data !== 'string') return onSound?.(new Uint8Array(data));
      const message = JSON.parse(data);
      if (message.type === 'joined') {
        isInRoom = true;
        pauseMs = FIRST_PAUSE_MS;
      }
      if (message.type === 'error') fault = message;
      onMessage?.(message);
      // A room that is refused leaves the client in the lobby, connected.
      if (message.type === 'error' && !isInRoom) giveUp();
    };
    socket = opened;
    watch();
  };
  connect();

  return {
    /** Sends a frame; what is said while there is no connection is lost, as on a telephone. */
    send: (/** @type {Uint8Array<ArrayBuffer>} */ frame) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(frame);
    },
    /** Leaves for good; resolves when the gateway knows, or after a second. */
    leave: () =>
      new Promise((resolve) => {
        clearTimeout(timer);
        socket.onclose = resolve;
        socket.close(1000);
        setTimeout(resolve, 1000);
      }),
  };
}

/** A clock for sound: resolves each time the next `frameMs` of it are due. After a stall it does not hurry to make up for more than a second. */
export function openPace(/** @type {number} */ frameMs) {
  let dueMs = performance.now();
  return async () => {
    dueMs = Math.max(dueMs + frameMs, performance.now() - 1000);
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  };
}
