import { expect, test } from 'vitest';
import { IceServers } from '../../src/media/ice-servers.ts';

test('each browser has credentials of its own, that name when they expire', () => {
  const servers = new IceServers(['turn:a:3478', 'turns:a:443'], 'secret');
  const nowMs = Date.UTC(2026, 10, 21);
  const [server] = servers.for('ada', nowMs);
  expect(server).toEqual({
    urls: ['turn:a:3478', 'turns:a:443'],
    username: `${nowMs / 1000 + 86_400}:ada`,
    // printf '1795305600:ada' | openssl dgst -sha1 -hmac secret -binary | base64
    credential: 'jlBF7qmHSo/rN7BKWPvuRr6d/HA=',
  });
  expect(servers.for('bob', nowMs)[0]?.credential).not.toBe(server?.credential);
});

test('without servers a browser is told of none', () => {
  expect(new IceServers([], '').for('ada')).toEqual([]);
});
