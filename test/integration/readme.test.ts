import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { openDelayingProxy } from '../support/delaying-proxy.ts';
import { joinPcm, peakHz } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, cleanUps } = useStack();

const DELAY_MS = 100;

/** The folder of the PATH that has a Node of some version, beside the project's own; undefined if none has. */
const folderOfNode = (major: number) =>
  process.env['PATH']?.split(delimiter).find((folder) => {
    const program = join(folder, 'node');
    const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    return status === 0 && stdout.startsWith(`v${major}.`);
  });

/**
 * Writes README's example into a file, and returns what runs the command that is printed there, with further words.
 * @param node folder of the Node that runs it
 */
async function readExample(url: string, apiKey: string, node: string) {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const [, example = ''] = /```js\n([^]*?)```/.exec(readme) ?? [];
  const [, command = ''] = /`(node [^`]*example\.mjs [^`]*)`/.exec(readme) ?? [];
  const folder = await mkdtemp(join(tmpdir(), 'partyline-readme-'));
  cleanUps.push(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'example.mjs'), example);
  const shell = command.replace('http://127.0.0.1:3000', url).replace('<key>', apiKey);
  const env = { PATH: [node, '/usr/bin', '/bin'].join(delimiter) };
  return (words = '') =>
    promisify(execFile)('sh', ['-c', `${shell}${words}`], { cwd: folder, env });
}

test.for([24, 20])(
  "README's legacy client, run as printed by Node %i behind a slow network, is heard and hears",
  async (major, { skip }) => {
    const node = major === 24 ? dirname(process.execPath) : folderOfNode(major);
    if (node === undefined) {
      const absence = `there is no Node ${major} in the PATH`;
      // A developer may do without it; what lands has been run with it.
      if (process.env['CI']) throw new Error(absence);
      return skip(absence);
    }
    const gateway = await openGateway();
    const proxy = await openDelayingProxy(gateway.url, DELAY_MS);
    cleanUps.push(proxy.close);
    const run = await readExample(proxy.url, gateway.apiKey, node);
    const runWithSlash = await readExample(`${proxy.url}/`, gateway.apiKey, node);
    const listener = await TestClient.connect(gateway.url, {
      room: 'demo',
      peer: 'listener',
      api_key: gateway.apiKey,
      audio: 'pcm_s16le;rate=48000;channels=1',
    });
    cleanUps.push(() => listener.vanish());
    await listener.next('joined');
    // Side by side: one does not take the other's place.
    const [alone, inRoom] = await Promise.all([runWithSlash(), run(' demo')]);
    for (const { stdout } of [alone, inRoom]) {
      expect(stdout).toMatch(/"type":"welcome"[^]*"type":"joined"[^]*closed 100[05]/);
      expect(stdout).not.toContain('"type":"error"');
    }
    expect(alone.stdout).toMatch(/1920 bytes of sound/);
    expect(peakHz(joinPcm(listener.frames).subarray(4800))).toBe(440);
  },
);

test("README's legacy client in two terminals, in one room: each hears the other", async () => {
  const { url, apiKey } = await openGateway();
  const run = await readExample(url, apiKey, dirname(process.execPath));
  const terminals = await Promise.all([run(' kitchen'), run(' kitchen')]);
  for (const { stdout } of terminals)
    expect(stdout).toMatch(/"type":"joined"[^]*1920 bytes of sound/);
});
