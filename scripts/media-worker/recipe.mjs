/**
 * Recipe, as a file for ninja, by which the media worker is built from mediasoup's own C++ sources with the
 * distribution's libraries.
 *
 * Upstream's build downloads its libraries and the tools to build them. Here the distribution's stand in:
 * libuv, OpenSSL and flatbuffers as they are, libsrtp 2 for libsrtp 3 and the standard containers for
 * unordered_dense behind the headers in compat/. MS_USE_BUILTIN_BWE leaves out libwebrtc's bandwidth
 * estimator, and abseil with it.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sources } from './mediasoup.mjs';

/** Stand-ins for headers that the distribution does not have. */
export const compat = fileURLToPath(new URL('compat', import.meta.url));

/** Little-endian, as every system is that Node has binaries for but s390x. */
const defines =
  '-DNDEBUG -DMS_LITTLE_ENDIAN -DMS_EXECUTABLE -DMS_USE_BUILTIN_BWE -DFLATBUFFERS_LOCALE_INDEPENDENT=1';

/**
 * -w: warnings in somebody else's sources help nobody here.
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
 * Sources that need a header before their own. DtlsTransport.cpp: without compat/bio.h the media
 * worker crashes in the first DTLS handshake (that header says why), while plain RTP works.
 *
 * @type {Record<string, string>}
 */
const headerFirst = { 'src/RTC/DtlsTransport.cpp': 'bio.h' };

/** @returns {string} short, and another one whenever a media worker would be built differently */
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
 * The folder that it is for has two links, `sources` and `compat`: no path of a machine is in it.
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

/** The list that meson.build begins with; what it adds to it later is libwebrtc's. */
function sourceFiles() {
  const meson = readFileSync(join(sources, 'meson.build'), 'utf8');
  const list = /^common_sources = \[([^\]]+)\]/m.exec(meson)?.[1] ?? '';
  return [...list.matchAll(/'([^']+)'/g)].map((match) => String(match[1])).concat('src/main.cpp');
}

function schemaNames() {
  const files = readdirSync(join(sources, 'fbs')).toSorted();
  return files.filter((file) => file.endsWith('.fbs')).map((file) => file.replace('.fbs', ''));
}
