/** The part of this library that is used here: it has no types of its own. */
declare module '@bcoe/v8-coverage' {
  import type { Profiler } from 'node:inspector';

  export type ScriptCov = Profiler.ScriptCoverage;

  /** Adds up the counts of a script in several processes; undefined if there are none. */
  export function mergeScriptCovs(scripts: readonly ScriptCov[]): ScriptCov | undefined;
}
