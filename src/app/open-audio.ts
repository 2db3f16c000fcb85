import { type LoadedCodecs, loadCodecs } from '../audio/codecs.ts';
import { warmUpDetection } from '../audio/ingest/detection/detector.ts';
import { MixEnginePool } from '../audio/mixing/mix-engine-pool.ts';
import { logOnceASecond } from '../log-once-a-second.ts';
import type { Opening } from './opening.ts';

export type Audio = { codecs: LoadedCodecs; mixEngines: MixEnginePool };

/** Loads the codecs, warms up the detection, and opens the pool of mix engines. */
export async function openAudio({ settings, log, opened }: Opening): Promise<Audio> {
  const codecSettings = {
    bitrateBps: settings.OPUS_BITRATE_BPS,
    complexity: settings.OPUS_COMPLEXITY,
  };
  const codecs = await loadCodecs(codecSettings);
  warmUpDetection();
  const { encoders } = codecs.opus;
  if (encoders.fault === undefined) log.info({ encoders: encoders.name }, 'codecs loaded');
  else
    log.warn(
      { encoders: encoders.name, err: encoders.fault },
      'native libopus not found; encoding takes twice the CPU',
    );
  const mixEngines = opened.adopt(
    new MixEnginePool(settings.MIX_THREADS, codecs, codecSettings, {
      onFault: logOnceASecond(log, 'room not mixed as planned'),
      onThreadLost: (reason) => log.error({ reason }, 'mixing thread lost'),
    }),
    (part) => part.close(),
  );
  return { codecs, mixEngines };
}
