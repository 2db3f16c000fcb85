import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type {
  NodeDescription,
  RoomDescription,
  RoomList,
} from '../../../../src/operator/schemas.ts';
import { type Api, Refusal } from '../../../../web/admin/api.ts';
import { Overview } from '../../../../web/admin/overview.ts';

/** State of the operator's page after answers of the gateway, which are the test's, in virtual time. */

const ROOM = { account_id: 1, room: 'kitchen' };
const SUMMARY = { ...ROOM, websocket: 1, webrtc: 0, away: 0, talking: 0 };
const node = (id: string) =>
  ({ id, name: `name of ${id}`, state: 'running', sessions: 0 }) as NodeDescription;

let rooms: RoomList;
let answerRooms: () => Promise<RoomList>;
let room: RoomDescription | Refusal;
let overview: Overview;
/** Sentences about rooms that were shown. */
let said: Set<string>;

beforeEach(async () => {
  vi.useFakeTimers();
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('document', { hidden: false, ...events });
  rooms = { rooms: [], unreachable: [] };
  answerRooms = () => Promise.resolve(rooms);
  room = { ...ROOM, peers: [], unreachable: [] };
  const api: Partial<Api> = {
    nodes: () => Promise.resolve({ nodes: [node('a'), node('b')], unreachable: [] }),
    rooms: () => answerRooms(),
    room: () => (room instanceof Refusal ? Promise.reject(room) : Promise.resolve(room)),
    close: () => undefined,
  };
  said = new Set();
  overview = new Overview(api as Api, {
    changed: ({ noRooms }) => said.add(noRooms),
    locked: () => undefined,
  });
  await refresh();
});
afterEach(() => {
  overview.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Lets the page ask again. */
const refresh = () => vi.advanceTimersByTimeAsync(1000);

test('a node that did not answer one of the questions is named', async () => {
  expect(overview.state.trouble).toBe('');
  rooms = { rooms: [], unreachable: ['b'] };
  await refresh();
  expect(overview.state.trouble).toMatch(/^No answer from name of b: /);
  rooms = { rooms: [SUMMARY], unreachable: [] };
  overview.choose(ROOM);
  room = { ...ROOM, peers: [], unreachable: ['b', 'unknown'] };
  await refresh();
  expect(overview.state.trouble).toMatch(/^No answer from name of b, unknown: /);
  rooms = { rooms: [SUMMARY], unreachable: ['b'] };
  await refresh();
  expect(overview.state.trouble).toMatch(/^No answer from name of b, unknown: /);
  room = new Refusal(404, { code: 'not_found', detail: 'This room has no peers.' });
  rooms = { rooms: [], unreachable: [] };
  await refresh();
  expect(overview.state).toMatchObject({ room: 'empty', trouble: '' });
});

test('that there are no rooms is said of the search that is shown, once it is answered', async () => {
  const noRooms = () => overview.state.noRooms;
  expect(noRooms()).toBe('Nobody is in a room.');
  const answer = Promise.withResolvers<RoomList>();
  answerRooms = () => answer.promise;
  await refresh();
  overview.search('kit');
  expect(noRooms()).toBe('');
  said.clear();
  // The answer to the question before, which found none.
  answerRooms = () => Promise.resolve({ ...rooms, rooms: [SUMMARY] });
  answer.resolve(rooms);
  await vi.advanceTimersByTimeAsync(0);
  expect(overview.state.rooms?.rooms).toEqual([SUMMARY]);
  expect([...said]).toEqual(['']);
  answerRooms = () => Promise.resolve(rooms);
  overview.search('kitchens');
  await vi.advanceTimersByTimeAsync(0);
  expect(noRooms()).toBe('No room matches.');
});

test('that there are no rooms is not said while a node does not answer', async () => {
  rooms = { rooms: [], unreachable: ['b'] };
  await refresh();
  expect(overview.state.noRooms).toBe('');
});
