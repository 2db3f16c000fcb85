import { ErrorReply } from 'redis';
import { expect, test } from 'vitest';
import type { Client } from '../../../src/store/client.ts';
import { outdatedVersion, requireVersion } from '../../../src/store/redis-version.ts';

/** Answer of `INFO server`, with this line in it. */
const infoWith = (line: string) => `# Server\r\n${line}redis_mode:standalone\r\nos:Linux\r\n`;

test.each([
  ['redis_version:6.0.16\r\n', '6.0.16'],
  ['redis_version:6.2.14\r\n', '6.2.14'],
  ['redis_version:7.0.0\r\n', undefined],
  ['redis_version:8.0.2\r\n', undefined],
  ['redis_version:10.1.0\r\n', undefined],
  ['redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n', undefined],
  ['', undefined],
])('%j: %s', (line, version) => {
  expect(outdatedVersion(infoWith(line))).toBe(version);
});

/** A Redis that answers INFO so. */
const redisWith = (info: () => Promise<string>) => ({
  run: <T>(commands: (client: Client) => Promise<T>) => commands({ info } as unknown as Client),
});

test('a Redis that refuses INFO is no Redis for usage workers', async () => {
  const refusal = new ErrorReply("NOPERM User worker has no permissions to run the 'info' command");
  const checking = requireVersion(redisWith(() => Promise.reject(refusal)));
  await expect(checking).rejects.toMatchObject({
    message: expect.stringContaining('refuses the command INFO') as string,
    cause: refusal,
  });
  const gone = new Error('The client is closed');
  await expect(requireVersion(redisWith(() => Promise.reject(gone)))).rejects.toBe(gone);
  await requireVersion(redisWith(() => Promise.resolve(infoWith('redis_version:7.0.0\r\n'))));
});
