import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { openTestGateway } from '../support/gateway.ts';
import { joinPcm, peakHz } from '../support/sound.ts';

test("README's legacy client, run as it stands there, is heard and hears", async () => {
  const gateway = await openTestGateway();
  const folder = await mkdtemp(join(tmpdir(), 'partyline-readme-'));
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const [, example] = /```js\n([^]*?)```/.exec(readme) ?? [];
  await writeFile(join(folder, 'example.mjs'), example ?? '');
  const listener = await TestClient.connect(gateway.url, {
    room: 'demo',
    peer: 'listener',
    api_key: gateway.apiKey,
    audio: 'pcm_s16le;rate=48000;channels=1',
  });
  await listener.next('joined');
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(folder, 'example.mjs'),
    gateway.url,
    gateway.apiKey,
  ]);
  expect(stdout).toMatch(/"type":"welcome"[^]*"type":"joined"[^]*closed 100[05]/);
  expect(peakHz(joinPcm(listener.frames).subarray(4800))).toBe(440);
  await listener.close();
  await gateway.close();
  await rm(folder, { recursive: true });
});
