import type { Attack } from './attack.ts';
import { HTTP_ATTACKS } from './http-attacks.ts';
import { MESSAGE_ATTACKS } from './message-attacks.ts';
import { SILENT_ATTACKS } from './silent-attacks.ts';
import { TLS_ATTACKS } from './tls-attacks.ts';
import { WEBRTC_ATTACKS } from './webrtc-attacks.ts';
import { WEBRTC_MESSAGE_ATTACKS } from './webrtc-message-attacks.ts';

/** Every attack of the hostile bench, in the order of the table. */
export const ATTACKS: Attack[] = [
  ...MESSAGE_ATTACKS,
  ...WEBRTC_MESSAGE_ATTACKS,
  ...SILENT_ATTACKS,
  ...TLS_ATTACKS,
  ...HTTP_ATTACKS,
  ...WEBRTC_ATTACKS,
];
