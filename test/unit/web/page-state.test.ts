import { beforeEach, expect, test } from 'vitest';
import { Page } from '../../../web/page-state.ts';

/** The form at the entrance, while the address of the page changes. */

const ROOM = { title: 'kitchen', status: '', way: '', isAway: false, mayInvite: true };

let draws: number;
let page: Page;
beforeEach(() => {
  draws = 0;
  page = new Page(() => (draws += 1));
  page.fillIn({ room: 'kitchen', peer: 'Ada', apiKey: 'key', invite: '' });
});

test('an address that is opened at the entrance fills the form in', () => {
  page.fillIn({ room: 'hall', invite: '' });
  expect(page.state).toMatchObject({ fields: { room: 'hall', peer: 'Ada' }, invite: '' });
  page.fillIn({ invite: 'ey' });
  expect(page.state).toMatchObject({ fields: { room: 'hall', apiKey: 'key' }, invite: 'ey' });
});

test.each([
  ['on the way in', () => page.showProgress('Connecting…')],
  ['in a room', () => page.showRoom(ROOM, {})],
])('an address that is opened %s fills the form in after the visit', (_, begin) => {
  begin();
  const before = page.state;
  draws = 0;
  page.fillIn({ peer: 'Grace', invite: 'ey' });
  page.fillIn({ room: 'hall', invite: '' });
  expect(page.state).toBe(before);
  page.fillIn({ invite: 'ey' });
  page.showEntrance('Lost.');
  expect(draws).toBe(1);
  const fields = { room: 'hall', peer: 'Grace', apiKey: 'key' };
  expect(page.state).toMatchObject({ fields, invite: 'ey', error: 'Lost.', room: undefined });
  // Once only.
  page.showProgress('Connecting…');
  page.show({ fields: { ...fields, room: 'attic' }, invite: '' });
  page.showEntrance();
  expect(page.state).toMatchObject({ fields: { room: 'attic' }, invite: '' });
});

test('an invitation that is over is left out of the entrance, unless another one has come meanwhile', () => {
  page.fillIn({ invite: 'over' });
  page.showProgress('Redeeming the invitation…');
  page.forgetInvitation();
  page.showEntrance();
  expect(page.state).toMatchObject({ invite: '', fields: { room: 'kitchen' } });
  page.fillIn({ invite: 'over' });
  page.showProgress('Redeeming the invitation…');
  page.fillIn({ invite: 'another' });
  page.forgetInvitation();
  page.showEntrance();
  expect(page.state.invite).toBe('another');
});
