import { expect, test } from 'vitest';
import { outdatedVersion } from '../../../src/store/redis-version.ts';

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
