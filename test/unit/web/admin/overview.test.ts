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
let room: RoomDescription | Refusal;
let overview: Overview;

beforeEach(async () => {
  vi.useFakeTimers();
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('document', { hidden: false, ...events });
  rooms = { rooms: [], unreachable: [] };
  room = { ...ROOM, peers: [], unreachable: [] };
  const api: Partial<Api> = {
    nodes: () => Promise.resolve({ nodes: [node('a'), node('b')], unreachable: [] }),
    rooms: () => Promise.resolve(rooms),
    room: () => (room instanceof Refusal ? Promise.reject(room) : Promise.resolve(room)),
    close: () => undefined,
  };
  const handlers = { changed: () => undefined, locked: () => undefined };
  overview = new Overview(api as Api, handlers);
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
