import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** Preloaded into each thread of a process (`--import`): appends the URL of each module that is loaded to the file `NOTED_MODULES`. */

const file = process.env['NOTED_MODULES'];
if (!file) throw new Error('NOTED_MODULES names no file.');
registerHooks({
  load(url, context, nextLoad) {
    appendFileSync(file, `${url}\n`);
    return nextLoad(url, context);
  },
});
