import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { TestClient } from './client.ts';
import { nextMessage, StoppableProcess } from './stoppable-process.ts';

/** Name of the speaker that only listeners to a mix hear. */
export const MIXED_ONLY = 'carol';
/** Formats and deliveries of the clients of the process. */
const HEARINGS = {
  pcm: { audio_out: 'pcm_s16le;rate=48000;channels=1' },
  opus: { audio_out: 'opus' },
  forward: { delivery: 'forward' },
} satisfies Record<string, Record<string, string>>;
export type Hearing = keyof typeof HEARINGS;
export const HEARING_NAMES = Object.keys(HEARINGS) as Hearing[];
/** Number of the newest frames that are told: a decoder needs some before those that are looked at. */
const LAST_FRAMES = 5;

/** Number of frames that a client has heard so far, and the last five of them, in base64. */
export type Heard = { frames: number; last: string[]; closeCode: number | undefined };

/** Clients in a process of their own, which can be stopped as an operating system stops one: PCM, Opus, and forwarded. */
export class ListeningProcess extends StoppableProcess {
  /** @param commandBefore what its command begins with, to run it on another host */
  static async start(
    url: string,
    apiKey: string,
    name: string,
    commandBefore: string[] = [],
  ): Promise<ListeningProcess> {
    const script = fileURLToPath(import.meta.url);
    const command = [...commandBefore, process.execPath, script, url, apiKey, name];
    const child = spawn(command[0]!, command.slice(1), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await nextMessage(child);
    return new ListeningProcess(child);
  }

  async heard(): Promise<Heard[]> {
    const answer = nextMessage(this.child);
    this.child.send('heard');
    return (await answer) as Heard[];
  }
}

async function listen([url = '', apiKey, name]: string[]): Promise<void> {
  const clients = await Promise.all(
    HEARING_NAMES.map(async (hearing) => {
      const query = { room: 'a', peer: `${name} ${hearing}`, api_key: apiKey, audio: 'opus' };
      const client = await TestClient.connect(url, { ...query, ...HEARINGS[hearing] });
      await client.next('joined');
      if (hearing === 'forward') {
        await client.ask({ type: 'configure', volume: { [MIXED_ONLY]: 0 } }, 'configured');
      }
      return client;
    }),
  );
  const closeCodes = new Map<TestClient, number>();
  for (const client of clients) void client.closed.then((code) => closeCodes.set(client, code));
  process.on('message', () => {
    const heard = clients.map((client) => ({
      frames: client.frames.length,
      last: client.frames.slice(-LAST_FRAMES).map((frame) => frame.toString('base64')),
      closeCode: closeCodes.get(client),
    }));
    process.send?.(heard satisfies Heard[]);
  });
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await listen(process.argv.slice(2));
