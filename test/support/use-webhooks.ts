import { type TimingOverrides, type Timings, timingsWith } from '../../config/timings.ts';
import { Accounts } from '../../src/accounts/accounts.ts';
import { WebhookOutbox } from '../../src/webhooks/webhook-outbox.ts';
import { WebhookStore } from '../../src/webhooks/webhook-store.ts';
import { type WebhookOptions, Webhooks } from '../../src/webhooks/webhooks.ts';
import { openWebhookWorker, type WebhookLimits } from '../../workers/webhook-jobs.ts';
import { eventually, silentLog as log } from './gateway.ts';
import type { TestRedis } from './redis.ts';
import { useStack } from './use-stack.ts';
import { WebhookReceiver } from './webhook-receiver.ts';

const QUICK = { firstRetryMs: 20, requestTimeoutMs: 3000, sweepEveryMs: 60_000 };
const LIMITS: WebhookLimits = { keepMs: 86_400_000, maxEvents: 10_000 };

/** The parts of webhooks, opened by each test for itself, and closed after it. */
export function useWebhooks() {
  const stack = useStack();
  const { openRedis, openStore, cleanUps } = stack;

  const openReceiver = async (port = 0) => {
    const receiver = await WebhookReceiver.start(port);
    cleanUps.push(() => receiver.close());
    return receiver;
  };
  /** A Redis, an account with a webhook, and the server that its events are sent to. */
  const openHook = async (redisOfTest?: TestRedis) => {
    const redis = redisOfTest ?? (await openRedis());
    const receiver = await openReceiver();
    const accounts = new Accounts(await openStore(redis));
    const { id, webhook_secret: secret = '' } = await accounts.create({
      name: 'Ada',
      email: 'ada@example.com',
      plan: 'pro',
      webhook_url: receiver.url,
    });
    return { redis, receiver, accounts, id, secret };
  };
  /** The part of a node that tells webhooks. */
  const openNode = async (
    redis: TestRedis,
    options: Partial<WebhookOptions> = {},
    webhooks: Partial<Timings['webhooks']> = {},
    redisTimings: TimingOverrides['redis'] = {},
  ) => {
    const store = await openStore(redis, redisTimings);
    const defaults = { wallMs: Date.now, maxEvents: LIMITS.maxEvents, keepMs: 15_000 };
    const { webhooks: timings } = timingsWith({ webhooks });
    const node = await Webhooks.open(store, new Accounts(store), log, timings, {
      ...defaults,
      ...options,
    });
    cleanUps.push(() => node.close());
    return node;
  };
  const openWorker = async (
    redis: TestRedis,
    webhooks: Partial<Timings['webhooks']> = {},
    limits: Partial<WebhookLimits> = {},
    others: TimingOverrides = {},
  ) => {
    const store = await openStore(redis, others.redis);
    const clock = { wallMs: Date.now };
    const worker = await openWebhookWorker(
      { redis: store, accounts: new Accounts(store), clock, log },
      { ...LIMITS, ...limits },
      timingsWith({ jobs: { lockMs: 500 }, ...others, webhooks: { ...QUICK, ...webhooks } }),
    );
    cleanUps.push(() => worker.close());
    return worker;
  };
  const openWebhookStore = async (redis: TestRedis) =>
    new WebhookStore(await openStore(redis), LIMITS.maxEvents);
  const openOutbox = async (redis: TestRedis) => new WebhookOutbox(await openStore(redis));
  /** One for each Redis of a test, because a test asks until nothing waits. */
  const outboxes = new Map<TestRedis, Promise<WebhookOutbox>>();
  const countWaiting = async (redis: TestRedis) => {
    let outbox = outboxes.get(redis);
    if (!outbox) {
      outbox = openOutbox(redis);
      outboxes.set(redis, outbox);
      cleanUps.push(() => outboxes.clear());
    }
    return (await outbox).count();
  };
  return {
    ...stack,
    openReceiver,
    openHook,
    openNode,
    openWorker,
    openWebhookStore,
    openOutbox,
    countWaiting,
  };
}

export const untilTaken = (receiver: WebhookReceiver, events: number, timeoutMs?: number) =>
  eventually(`${events} events`, () => receiver.story.length === events, timeoutMs);

/** Events of a {@link visit}. */
export const VISIT = ['room_started a', 'peer_joined a/ada', 'peer_left a/ada', 'room_ended a'];

export function visit(node: Webhooks, id: number, room = 'a', peer = 'ada'): void {
  node.peerJoined(id, room, peer, 'websocket');
  node.peerLeft(id, room, peer, 'left');
}
