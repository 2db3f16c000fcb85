import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { tone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, cleanUps } = useStack();

const FORMAT = 'pcm_s16le;rate=48000;channels=1';
const FRAME_SAMPLES = 960;

/** Stand-ins for values that are others each time, by the name of their field. */
const STAND_INS: Record<string, unknown> = {
  session_id: '6e0b2a3c-41d7-4c55-9f0e-2b1f7c9d8e10',
  resume_token: 'kT2vXw…',
  level_dbov: -9,
};

const normalized = (value: object) =>
  JSON.stringify(value, (name, field: unknown) => STAND_INS[name] ?? field);

/** Messages that one client sends and is sent, line by line. */
class Transcript {
  readonly lines: string[] = [];

  say(line: string): void {
    this.lines.push(line);
  }

  /** Connects; the query is written as a client writes it. */
  async connect(url: string, apiKey: string, query: Record<string, string>): Promise<TestClient> {
    const resumed = Object.keys(query).map((name) => `&${name}=${String(STAND_INS[name])}`);
    const known = `room=__lobby__&peer=alice&api_key=pl_…&audio=${FORMAT}`;
    this.say(`→ GET /ws?${known}${resumed.join('')}`);
    const client = await TestClient.connect(url, {
      room: '__lobby__',
      peer: 'alice',
      api_key: apiKey,
      audio: FORMAT,
      ...query,
    });
    cleanUps.push(() => client.vanish());
    return client;
  }

  /** Notes the next message of a type. */
  async next<T extends ServerMessage['type']>(client: TestClient, type: T, from = 0) {
    const message = await client.next(type, from);
    this.say(`← ${normalized(message)}`);
    return message;
  }

  async ask(client: TestClient, message: object, answer: ServerMessage['type']): Promise<void> {
    const from = client.messages.length;
    this.say(`→ ${JSON.stringify(message)}`);
    client.send(message);
    await this.next(client, answer, from);
  }
}

/** Half a second of a tone, in real time. */
async function speak(client: TestClient): Promise<void> {
  const sound = Int16Array.from(tone(440, 0.5, 500), (sample) => sample * 32_767);
  for (let at = 0; at < sound.length; at += FRAME_SAMPLES) {
    client.sendAudio(new Uint8Array(sound.buffer, at * 2, FRAME_SAMPLES * 2));
    await wait(20);
  }
}

/** Speaks, and notes of what is told of it the first and the last. */
async function noteSpeaking(transcript: Transcript, speaker: TestClient, listener: TestClient) {
  const from = listener.messages.length;
  await speak(speaker);
  const told = () =>
    listener.messages.slice(from).flatMap((each) => (each.type === 'speaking' ? [each] : []));
  await eventually('the end is told', () => told().at(-1)?.peers.length === 0);
  return () => {
    const end = told().findLast(({ peers }) => peers.length === 0);
    for (const each of [told()[0]!, end!]) transcript.say(`← ${normalized(each)}`);
  };
}

test('the session in protocol.md is what happens', async () => {
  const gateway = await openGateway({ RESUME_MS: '15000' });
  const { url, apiKey } = gateway;
  const transcript = new Transcript();

  const alice = await transcript.connect(url, apiKey, {});
  const { session_id, resume_token } = await transcript.next(alice, 'welcome');
  await transcript.ask(alice, { type: 'join', room: 'kitchen', id: 1 }, 'joined');

  const query = { room: 'kitchen', peer: 'bob', api_key: apiKey, audio: 'opus' };
  const bob = await TestClient.connect(url, query);
  cleanUps.push(() => bob.vanish());
  await transcript.next(alice, 'peer_joined');

  transcript.say('→ binary: 1920 bytes, 20 ms of sound; 25 such, one each 20 ms');
  (await noteSpeaking(transcript, alice, alice))();

  await bob.ask({ type: 'configure', audio: FORMAT }, 'configured');
  const noteOf = await noteSpeaking(transcript, bob, alice);
  expect(alice.frames.length).toBeGreaterThan(20);
  expect(new Set(alice.frames.map(({ length }) => length))).toEqual(new Set([1920]));
  transcript.say('← binary: 1920 bytes, 20 ms of what bob says; and on while anybody speaks');
  noteOf();

  const configure = { type: 'configure', volume: { bob: 0.5 }, mute: true, id: 2 };
  await transcript.ask(alice, configure, 'configured');
  const from = alice.messages.length;
  await bob.ask({ type: 'configure', mute: true }, 'configured');
  await transcript.next(alice, 'peer_changed', from);
  await transcript.ask(alice, { type: 'dance', id: 'x' }, 'error');

  transcript.say('  the connection breaks, and alice comes back within resume_ms');
  alice.vanish();
  await eventually('it is lost', () => gateway.counts().sessions === 1);
  const again = await transcript.connect(url, apiKey, { session_id, resume_token });
  await transcript.next(again, 'welcome');
  await transcript.next(again, 'joined');

  await bob.close();
  await transcript.next(again, 'peer_left');
  await transcript.ask(again, { type: 'leave', id: 3 }, 'left');
  await again.close();
  transcript.say('→ close 1000');

  const docs = await readFile(new URL('../../docs/protocol.md', import.meta.url), 'utf8');
  const [, documented] = /<!-- transcript -->\n```\n([^]*?)\n```/.exec(docs) ?? [];
  expect(transcript.lines.join('\n')).toBe(documented);
});
