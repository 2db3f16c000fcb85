import { LAYERS } from '../../oxlint.config.ts';
import { code, tableOf } from './markdown.mjs';

/** Returns the table of layers, for docs/architecture.md. */
export function layersTable() {
  const rows = Object.entries(LAYERS).map(([name, { holds, files, imports }]) => [
    name,
    files.map(code).join(', '),
    holds,
    imports.join(', ') || '–',
  ]);
  return tableOf(['layer', 'files', 'holds', 'may import'], rows);
}
