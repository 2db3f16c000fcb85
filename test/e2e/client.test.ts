import { cpSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { expect, onTestFinished, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { installClient } from '../support/install-client.ts';
import { SETTLING } from '../support/settling.ts';
import { lastSecondOf, pcmTone, peakHz } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The npm package, as others use it: installed by npm from its tarball, in a project that has nothing else of this one. */

const PROJECT = join(import.meta.dirname, '../..');
const PAGE = join(PROJECT, 'docs/client.md');
const MAX_BYTES = 25 * 1024;
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' };

const used = useGateway();

/** Returns the size of what is installed, without mediasoup-client and the files of the codecs, as it is sent: gzipped, in bytes. */
function installedBytes(folder: string): number {
  const dist = join(folder, 'node_modules/partyline-client/dist');
  const codecs = ['decoder-worker.js', 'encoder-worker.js'];
  const files = globSync('*.js', { cwd: dist }).filter((name) => !codecs.includes(name));
  expect(files).toEqual(expect.arrayContaining(['index.js', 'worklet.js']));
  const sizes = files.map((name) => gzipSync(readFileSync(join(dist, name))).length);
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Bundles the example of docs/client.md. @returns the folder in which its page is */
async function bundleExample(folder: string, gatewayUrl: string): Promise<string> {
  const page = readFileSync(PAGE, 'utf8');
  const [, example = ''] = /<!-- example -->\n```js\n([^]*?)```/.exec(page) ?? [];
  expect(example).toContain("from 'partyline-client'");
  writeFileSync(join(folder, 'page.js'), example);
  const out = join(folder, 'out');
  await build({
    absWorkingDir: folder,
    entryPoints: ['page.js'],
    outdir: out,
    bundle: true,
    splitting: true,
    format: 'esm',
  });
  for (const name of ['worklet', 'decoder-worker', 'encoder-worker']) {
    const file = `${name}.js`;
    cpSync(join(folder, 'node_modules/partyline-client/dist', file), join(out, file));
  }
  const body = `<body data-gateway="${gatewayUrl}" data-processing="off"><p id="state"></p><p id="peers"></p><p id="transport"></p><button id="join">Join</button><button id="mute">Mute</button>`;
  writeFileSync(
    join(out, 'index.html'),
    `<!doctype html>${body}<script type="module" src="page.js"></script></body>`,
  );
  return out;
}

/** Serves the example with the policy that docs/client.md prints, and gives out tokens, though none to the first that asks. */
async function serve(folder: string, getToken: () => Promise<string>): Promise<string> {
  const [, printed = ''] = /```\n(default-src [^\n]*)\n```/.exec(readFileSync(PAGE, 'utf8')) ?? [];
  const policy = printed.replace('wss://voice.example.com', used.gateway.url.replace('http', 'ws'));
  expect(policy).toContain('wasm-unsafe-eval');
  let asked = 0;
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    response.setHeader('content-security-policy', policy);
    if (pathname === '/token') {
      asked += 1;
      if (asked === 1) response.writeHead(502).end('<h1>Bad gateway</h1>');
      else void getToken().then((token) => response.end(token));
      return;
    }
    const file = pathname === '/' ? '/index.html' : pathname;
    response.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream');
    try {
      response.end(readFileSync(join(folder, file)));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function askForToken(): Promise<string> {
  const response = await fetch(`${used.gateway.url}/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${used.gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'ada', rooms: ['kitchen'], ttl_seconds: 60, publish: true }),
  });
  return ((await response.json()) as { token: string }).token;
}

test('the example of docs/client.md runs from the tarball, under the policy that is printed there', async () => {
  const folder = await installClient();
  expect(installedBytes(folder)).toBeLessThan(MAX_BYTES);
  const out = await bundleExample(folder, `${used.gateway.url.replace('http', 'ws')}/ws`);
  const legacy = await used.enter('door phone', { room: 'kitchen' });
  const browser = used.keep(
    await TestBrowser.open(await serve(out, askForToken), pcmTone(800, 0.5, 10_000)),
  );
  const text = (id: string) => browser.page.locator(id).innerText();
  await browser.page.click('#join');
  await expect.poll(() => text('#state'), SETTLING).toBe('in_room');
  expect(await text('#peers')).toBe('door phone');
  expect(await text('#transport')).toMatch(/^(webrtc|websocket)$/);
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(60);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
  }, SETTLING);
  await browser.page.click('#mute');
  // A change to the WebSocket is told in such a message, too.
  const change = await legacy.until('change of muted', () =>
    legacy.messages.find(
      (message) => message.type === 'peer_changed' && message.muted !== undefined,
    ),
  );
  expect(change).toMatchObject({ peer: 'ada', muted: true });
});
