import { takeCoverage } from 'node:v8';
import { afterAll } from 'vitest';

/** Writes what this process has run to the folder NODE_V8_COVERAGE: vitest kills it when its tests have ended. */
afterAll(() => takeCoverage());
