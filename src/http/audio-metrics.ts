import { count, type Definition, gauge } from './metric-snapshot.ts';

const SAMPLES_PER_S = 48_000;

/** Metrics of frames, packets and mixing. */
export const AUDIO_METRICS: Definition[] = [
  count(
    'frames_total',
    'Binary frames from (in) and to (out) clients',
    ({ counters }) => ({ in: counters.framesIn, out: counters.framesOut }),
    'direction',
  ),
  count(
    'router_packets_total',
    "RTP packets from (in) and to (out) the rooms' routers",
    ({ counters }) => ({ in: counters.routerPacketsIn, out: counters.routerPacketsOut }),
    'direction',
  ),
  count(
    'dropped_packets_total',
    'Packets and frames that were dropped, by reason',
    ({ counters }) => counters.dropped,
    'reason',
  ),
  count(
    'concealed_seconds_total',
    'Audio synthesized in place of lost or late packets',
    ({ counters }) => counters.concealedSamples / SAMPLES_PER_S,
  ),
  gauge(
    'mixed_speakers',
    'Speakers that are mixed now',
    ({ jitterBuffers }) => jitterBuffers.speakers,
  ),
  gauge(
    'jitter_buffer_seconds',
    'Contents of the jitter buffers of mixed speakers',
    ({ jitterBuffers: { speakers, sumMs, maxMs } }) => ({
      mean: sumMs / Math.max(1, speakers) / 1000,
      max: maxMs / 1000,
    }),
    'stat',
  ),
  count(
    'mix_ticks_total',
    'Times 20 ms of a room were mixed, in the event loop (inline) or a thread',
    ({ counters: { mixing } }) => ({ inline: mixing.inline.ticks, thread: mixing.thread.ticks }),
    'place',
  ),
  count(
    'mix_seconds_total',
    'Time spent on mixing',
    ({ counters: { mixing } }) => ({
      inline: mixing.inline.costMs / 1000,
      thread: mixing.thread.costMs / 1000,
    }),
    'place',
  ),
  count(
    'mix_skipped_ticks_total',
    'Times 20 ms of a room were dropped because its mixing thread was late',
    ({ counters }) => counters.mixing.skippedTicks,
  ),
  gauge('mix_threads', 'Mixing threads that run', ({ mixThreads }) => mixThreads),
];
