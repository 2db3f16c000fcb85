import type { Attack } from './attack.ts';
import { MESSAGE_ATTACKS } from './message-attacks.ts';
import { RAW_ATTACKS } from './raw-attacks.ts';

/** Every attack of the hostile bench, in the order of the table. */
export const ATTACKS: Attack[] = [...MESSAGE_ATTACKS, ...RAW_ATTACKS];
