import dns from 'node:dns';
import { connect } from 'node:net';
import { once } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { expect, test, vi } from 'vitest';
import { useStack } from '../support/use-stack.ts';

const { openGateway } = useStack();

/** A second loopback address that each machine has, in place of ::1. */
const SECOND = '127.0.0.2';

test('a gateway at localhost serves its first address alone: limits of connections are those of one server', async () => {
  const real = dns.lookup;
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(((
    name: string,
    options: dns.LookupAllOptions,
    callback: (fault: Error | null, addresses: dns.LookupAddress[]) => void,
  ) => {
    if (name !== 'localhost' || !options.all) return real(name, options, callback);
    const addresses = ['127.0.0.1', SECOND].map((address) => ({ address, family: 4 }));
    callback(null, addresses);
  }) as unknown as typeof dns.lookup);
  try {
    const { url } = await openGateway({ HOST: 'localhost' });
    expect(new URL(url).hostname).toBe('localhost');
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const second = connect(Number(new URL(url).port), SECOND);
    await expect(once(second, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  } finally {
    lookup.mockRestore();
  }
});

test('a gateway at localhost serves 127.0.0.1, although another address is its first', async () => {
  const real = dns.promises.lookup;
  const lookup = vi
    .spyOn(dns.promises, 'lookup')
    .mockImplementation((name: string, options: dns.LookupOneOptions = {}) => {
      if (name !== 'localhost') return real(name, options);
      const address = options.order === 'ipv4first' ? '127.0.0.1' : SECOND;
      return Promise.resolve({ address, family: 4 });
    });
  syncBuiltinESMExports();
  try {
    const { url } = await openGateway({ HOST: 'localhost' });
    expect((await fetch(`http://127.0.0.1:${new URL(url).port}/healthz`)).status).toBe(200);
    expect(lookup).toHaveBeenCalled();
  } finally {
    lookup.mockRestore();
    syncBuiltinESMExports();
  }
});
