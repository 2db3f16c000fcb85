import { expect, test } from 'vitest';
import { IceServers } from '../../../src/media/ice-servers.ts';

test('each browser has credentials of its own, that name when they expire', () => {
  const wallMs = Date.UTC(2026, 10, 21);
  const servers = new IceServers(['turn:a:3478', 'turns:a:443'], 'secret', () => wallMs);
  const [server] = servers.for('ada');
  expect(server).toEqual({
    urls: ['turn:a:3478', 'turns:a:443'],
    username: `${wallMs / 1000 + 86_400}:ada`,
    // printf '1795305600:ada' | openssl dgst -sha1 -hmac secret -binary | base64
    credential: 'jlBF7qmHSo/rN7BKWPvuRr6d/HA=',
  });
  expect(servers.for('bob')[0]?.credential).not.toBe(server?.credential);
});

test('without servers a browser is told of none', () => {
  expect(new IceServers([], '', Date.now).for('ada')).toEqual([]);
});
