/** The part of the page that is needed from Join on, and is loaded while the form is filled in. */
export { redeemInvite } from './invite.ts';
export { RoomView } from './room-view.tsx';
export { Visit } from './visit.ts';
