import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { TestClient } from './client.ts';
import { nextMessage, StoppableProcess } from './stoppable-process.ts';

/** Index of the client that hears PCM. */
export const PCM_INDEX = 0;
/** Formats and deliveries of the clients of the process. */
const HEARINGS: Record<string, string>[] = [
  { audio_out: 'pcm_s16le;rate=48000;channels=1' },
  { audio_out: 'opus' },
  { delivery: 'forward' },
];

/** Number of frames that a client has heard so far, and the last two of them, in base64. */
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
    HEARINGS.map(async (hearing, index) => {
      const query = { room: 'a', peer: `${name}${index}`, api_key: apiKey, audio: 'opus' };
      const client = await TestClient.connect(url, { ...query, ...hearing });
      await client.next('joined');
      return client;
    }),
  );
  const closeCodes = new Map<TestClient, number>();
  for (const client of clients) void client.closed.then((code) => closeCodes.set(client, code));
  process.on('message', () => {
    const heard = clients.map((client) => ({
      frames: client.frames.length,
      last: client.frames.slice(-2).map((frame) => frame.toString('base64')),
      closeCode: closeCodes.get(client),
    }));
    process.send?.(heard satisfies Heard[]);
  });
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await listen(process.argv.slice(2));
