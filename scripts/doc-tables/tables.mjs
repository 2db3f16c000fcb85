import { settingsTable } from '../../config/settings.ts';
import { layersTable } from './layers.mjs';
import { messageTables } from './messages.mjs';
import { closeCodesTable, formatsTable, whipProblemsTable } from './protocol.mjs';
import { redisTables } from './redis.mjs';

/**
 * Every table of the docs that is made from the source, by page and name.
 * @type {Record<string, Record<string, string>>}
 */
export const TABLES = {
  'docs/settings.md': { settings: settingsTable() },
  'docs/architecture.md': { layers: layersTable() },
  'docs/protocol.md': {
    'close codes': closeCodesTable(),
    formats: formatsTable(),
    'whip problems': whipProblemsTable(),
    ...messageTables(),
  },
  'docs/redis.md': redisTables(),
};
