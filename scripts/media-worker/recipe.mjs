/**
 * Recipe, as a file for ninja, by which the media worker is built from mediasoup's own C++ sources with the
 * distribution's libraries.
 *
 * mediasoup's own build downloads its libraries and the tools to build them. This one uses the distribution's libuv, OpenSSL and
 * flatbuffers; headers in compat/ adapt libsrtp 2 in place of libsrtp 3, and the standard containers in place of
 * unordered_dense. MS_USE_BUILTIN_BWE leaves out libwebrtc's bandwidth estimator, and with it abseil.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sources } from './mediasoup.mjs';

/** Stand-ins for headers that the distribution does not have. */
export const compat = fileURLToPath(new URL('compat', import.meta.url));

/** Little-endian: all systems for which Node has binaries are, except s390x. */
const defines =
  '-DNDEBUG -DMS_LITTLE_ENDIAN -DMS_EXECUTABLE -DMS_USE_BUILTIN_BWE -DFLATBUFFERS_LOCALE_INDEPENDENT=1';

/**
 * -w: warnings about mediasoup's sources are of no use here.
 * -s: without symbols, a tenth of the size.
 * flatc's flags are those of worker/fbs/FBS/meson.build.
 */
const rules = `flags = -std=c++20 -O3 -w ${defines} -I. -Icompat -Isources/include

rule schema
  command = flatc --cpp --cpp-field-case-style lower --reflect-names --scoped-enums --filename-suffix "" -o FBS $in
  description = schemas
rule precompile
  command = g++ $flags -MMD -MF $out.d -x c++-header -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $in
rule compile
  command = g++ $flags -include precompiled.h $include -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $in
rule link
  command = g++ -s -o $out $in -luv -lsrtp2 -lssl -lcrypto -lpthread
  description = $out
`;

/**
 * Sources before which another header must be included. DtlsTransport.cpp: without compat/bio.h, which explains it, the media
 * worker crashes in the first DTLS handshake.
 *
 * @type {Record<string, string>}
 */
const headerFirst = { 'src/RTC/DtlsTransport.cpp': 'bio.h' };

/** @returns {string} short hash of all on which the result of a build depends */
export function recipeHash() {
  const hash = createHash('sha256').update(ninjaFile());
  for (const header of compatHeaders()) hash.update(readFileSync(join(compat, header)));
  return hash.digest('hex').slice(0, 10);
}

function compatHeaders() {
  const files = readdirSync(compat, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => file.endsWith('.h')).toSorted();
}

/**
 * Returns the build file. It contains no path of this machine: the folder in which it is used has links `sources` and `compat`.
 *
 * @returns {string} the text of a build.ninja that makes `mediasoup-worker`
 */
export function ninjaFile() {
  const objects = sourceFiles().map(objectOf).join(' ');
  const schemas = schemaNames();
  const schemaFiles = schemas.map((schema) => `sources/fbs/${schema}.fbs`).join(' ');
  const headers = schemas.map((schema) => `FBS/${schema}.h`).join(' ');
  return `${rules}
build ${headers}: schema ${schemaFiles}
build precompiled.h.gch: precompile compat/precompiled.h | ${headers}
${sourceFiles().map(compileStep).join('\n')}
build mediasoup-worker: link ${objects}
`;
}

/** @param {string} file */
function compileStep(file) {
  const step = `build ${objectOf(file)}: compile sources/${file} | precompiled.h.gch`;
  const header = headerFirst[file];
  return header ? `${step}\n  include = -include ${header}` : step;
}

/** @param {string} file */
function objectOf(file) {
  return file.replace(/\.cpp$/, '.o');
}

/** Returns the sources in the first list of meson.build; those that it adds later are libwebrtc's. */
function sourceFiles() {
  const meson = readFileSync(join(sources, 'meson.build'), 'utf8');
  const list = /^common_sources = \[([^\]]+)\]/m.exec(meson)?.[1] ?? '';
  return [...list.matchAll(/'([^']+)'/g)].map((match) => String(match[1])).concat('src/main.cpp');
}

function schemaNames() {
  const files = readdirSync(join(sources, 'fbs')).toSorted();
  return files.filter((file) => file.endsWith('.fbs')).map((file) => file.replace('.fbs', ''));
}
