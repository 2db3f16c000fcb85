import type { RateEvents } from '../bridge/rtp-budget.ts';
import { rtpExceeded, rtpTooFast } from '../protocol/errors.ts';
import { errorMessage } from '../protocol/messages.ts';
import type { ClientConnection } from './peer.ts';

/** Returns events that tell and end a client whose RTP comes too fast. @param connection returns its present connection */
export const rateEventsOf = (
  connection: () => Pick<ClientConnection, 'notify' | 'fail'>,
): RateEvents => ({
  onWarned: () => connection().notify(errorMessage(rtpTooFast())),
  onExceeded: () => connection().fail(rtpExceeded()),
});
