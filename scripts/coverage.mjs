/**
 * Measures which lines and branches of src the tests run: `npm run coverage` with both suites, `npm run coverage -- FILE…` with these
 * files. Every process and thread that a test starts counts, unless it is killed. The report of each file is in build/coverage/src.json,
 * as Istanbul writes it.
 */
import { mergeScriptCovs } from '@bcoe/v8-coverage';
import { convert } from 'ast-v8-to-istanbul';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseAst } from 'vite';
import { build, readJson, root } from './set-up/project.mjs';

/**
 * @typedef {import('@bcoe/v8-coverage').ScriptCov} Script
 * @typedef {{ statementMap: Record<string, { start: { line: number } }>, s: Record<string, number>, b: Record<string, number[]> }} Report
 * @typedef {{ covered: number, total: number }} Share
 * @typedef {{ file: string, lines: Share, branches: Share }} Measured
 */

/** Projects of vitest.config.ts, each run by itself, so that the files of V8 of one at a time are on the disk. */
const PROJECTS = [
  'unit',
  'simulation',
  'waiting',
  'waiting-apart',
  'listening',
  'mixing',
  'hearing',
  'pages',
  'e2e',
  'long-hidden',
  'long-sound',
  'long-waiting',
  'long',
  'long-simulation',
];
/** Tests of what runs in browsers alone: Node does not load it by itself, and with vite's loader, offsets are not those of the source. */
const BROWSER_TESTS = 'test/unit/{web,packages}/**';
const LEAST_COVERED_FILES = 10;

const folder = join(build, 'coverage');
const raw = join(folder, 'raw');
const src = pathToFileURL(join(root, 'src')).href;

/**
 * Runs the tests of a project.
 * @param {string} project
 * @param {string[]} files all, if there are none
 * @returns {boolean} true if they passed
 */
function runTests(project, files) {
  const options = [`--project=${project}`, `--exclude=${BROWSER_TESTS}`, '--passWithNoTests'];
  const env = { ...process.env, NODE_V8_COVERAGE: raw };
  const { status } = spawnSync('vitest', ['run', ...options, ...files], {
    stdio: 'inherit',
    cwd: root,
    env,
  });
  return status === 0;
}

/**
 * Adds up what the processes of a project have run, and deletes their files.
 * @param {Map<string, Script>} scripts by URL
 */
function collect(scripts) {
  for (const name of readdirSync(raw)) {
    const path = join(raw, name);
    /** @type {{ result: Script[] }} */
    const { result } = readJson(path);
    for (const script of result.filter(({ url }) => url.startsWith(`${src}/`))) {
      const known = scripts.get(script.url);
      const merged = mergeScriptCovs(known ? [known, script] : [script]);
      if (merged) scripts.set(script.url, merged);
    }
    rmSync(path);
  }
}

/**
 * @param {string} path of a source
 * @param {Script | undefined} script undefined if nothing has loaded it
 */
function reportOn(path, script) {
  // Types become spaces: offsets are those of the source.
  const code = stripTypeScriptTypes(readFileSync(path, 'utf8'));
  const { href: url } = pathToFileURL(path);
  const ranges = [{ startOffset: 0, endOffset: code.length, count: 0 }];
  const nothing = { functionName: '', isBlockCoverage: true, ranges };
  const functions = script?.functions ?? [nothing];
  return convert({ code, coverage: { url, functions }, ast: parseAst(code) });
}

/**
 * @param {boolean[]} have
 * @returns {Share}
 */
const shareOf = (have) => ({ covered: have.filter(Boolean).length, total: have.length });

/**
 * @param {string} file
 * @param {Report} report
 * @returns {Measured}
 */
function measure(file, { statementMap, s: counts, b: branchCounts }) {
  /** @type {Map<number, boolean>} */
  const lines = new Map();
  for (const [id, { start }] of Object.entries(statementMap)) {
    lines.set(start.line, lines.get(start.line) === true || (counts[id] ?? 0) > 0);
  }
  const branches = Object.values(branchCounts).flat();
  return {
    file,
    lines: shareOf([...lines.values()]),
    branches: shareOf(branches.map((count) => count > 0)),
  };
}

/**
 * @param {Measured[]} files
 * @param {'lines' | 'branches'} what
 */
function describeAll(files, what) {
  const covered = files.reduce((sum, file) => sum + file[what].covered, 0);
  const total = files.reduce((sum, file) => sum + file[what].total, 0);
  return `${((100 * covered) / total).toFixed(2)} % of ${what} (${covered} of ${total})`;
}

const files = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(raw, { recursive: true });
/** @type {Map<string, Script>} */
const scripts = new Map();
let isPassed = true;
for (const project of PROJECTS) {
  isPassed = runTests(project, files) && isPassed;
  collect(scripts);
}

const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
const sources = names.filter((name) => name.endsWith('.ts')).map((name) => join(root, 'src', name));
const measured = [];
const reports = {};
for (const path of sources) {
  const report = await reportOn(path, scripts.get(pathToFileURL(path).href));
  Object.assign(reports, report);
  const [data] = Object.values(report);
  if (data) measured.push(measure(relative(root, path), data));
}
writeFileSync(join(folder, 'src.json'), JSON.stringify(reports));

/** @param {Measured} file */
const left = ({ lines }) => lines.total - lines.covered;
process.stdout.write('\nFiles with the most lines that no test runs:\n');
for (const file of measured.toSorted((a, b) => left(b) - left(a)).slice(0, LEAST_COVERED_FILES)) {
  process.stdout.write(`${String(left(file)).padStart(6)}  ${file.file}\n`);
}
process.stdout.write(
  `\nTests run ${describeAll(measured, 'lines')} and ${describeAll(measured, 'branches')} of src.\n`,
);
process.exitCode = isPassed ? 0 : 1;
