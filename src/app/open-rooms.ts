import { FrameClock } from '../audio/clock.ts';
import { IceServers } from '../media/ice-servers.ts';
import { RelayBudgets } from '../rooms/relay-budgets.ts';
import { RoomRegistry } from '../rooms/registry.ts';
import { RtpBudgets } from '../rooms/rtp-budgets.ts';
import { Slices } from '../slices.ts';
import { logOnceASecond } from '../log-once-a-second.ts';
import type { Audio } from './open-audio.ts';
import type { Media } from './open-media.ts';
import type { Store } from './open-store.ts';
import type { UsageParts } from './open-usage.ts';
import type { Opening } from './opening.ts';

/** Opens the list of rooms; rooms themselves are opened by the first peer that joins. */
export function openRooms(
  { settings, timings, log, opened }: Opening,
  { clock }: Store,
  { meter, webhooks }: UsageParts,
  { pool, cluster }: Media,
  { mixEngines }: Audio,
): RoomRegistry {
  const relayBudgets = new RelayBudgets();
  const { tooFastAfterMs, rtpEndAfterMs } = timings.budgets;
  const rooms = new RoomRegistry({
    pool,
    cluster,
    mixEngines,
    meterPeer: (accountId, room, kind) => meter.enter(accountId, room, kind),
    chargeRelay: (accountId, cost) => relayBudgets.charge(accountId, cost, performance.now()),
    meterSize: (accountId, room, peers) => meter.resize(accountId, room, peers),
    onJoined: (...joined) => webhooks.peerJoined(...joined),
    onLeft: (...left) => webhooks.peerLeft(...left),
    clock: new FrameClock(logOnceASecond(log, 'tick failed')),
    slices: new Slices((fault) => log.error({ err: fault }, 'room work failed')),
    iceServers: new IceServers(
      settings.TURN_URLS.split(',')
        .map((url) => url.trim())
        .filter((url) => url !== ''),
      settings.TURN_SECRET,
      clock.wallMs,
    ),
    log,
    maxMixedSpeakers: settings.MIX_MAX_SPEAKERS,
    talkThresholdDbov: settings.TALK_THRESHOLD_DBOV,
    talkHoldMs: settings.TALK_HOLD_MS,
    uplinkTimings: { tooFastAfterMs, producerRetryMs: timings.mediaWorkers.producerRetryMs },
    rtpBudgets: new RtpBudgets(rtpEndAfterMs),
  });
  return opened.adopt(rooms, (part) => part.close());
}
