import type { Redis } from '../../src/store/redis.ts';

/** A store whose Redis has a clock that can be turned and stopped, as the server's own cannot be. */
export function withTurnedClock(store: Redis): {
  store: Redis;
  jump: (ms: number) => void;
  stop: () => Promise<void>;
} {
  let aheadMs = 0;
  let stopped: Awaited<ReturnType<Redis['client']['time']>> | undefined;
  const turned = (client: Redis['client']) =>
    new Proxy(client, {
      get: (target, name) => {
        if (name !== 'time') return Reflect.get(target, name) as unknown;
        return async () => {
          const [seconds, microseconds] = stopped ?? (await target.time());
          return [String(Number(seconds) + aheadMs / 1000), microseconds];
        };
      },
    });
  return {
    store: new Proxy(store, {
      get: (target, name) =>
        name === 'run'
          ? <T>(commands: (client: Redis['client']) => Promise<T>) =>
              target.run((client) => commands(turned(client)))
          : (Reflect.get(target, name) as unknown),
    }),
    jump: (ms) => {
      aheadMs += ms;
    },
    stop: async () => {
      stopped = await store.run((client) => client.time());
    },
  };
}
