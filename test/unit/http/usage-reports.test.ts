import Fastify, { type FastifyReply } from 'fastify';
import { expect, test } from 'vitest';
import { timingsWith } from '../../../config/timings.ts';
import { registerProblems } from '../../../src/http/problem.ts';
import { UsageReports } from '../../../src/http/usage-reports.ts';
import type { UsageRecord } from '../../../src/usage/usage-reader.ts';

const RECORD: UsageRecord = {
  start: '2026-11-21T08:00',
  room: 'a',
  websocketMs: 1000,
  webrtcMs: 0,
  peakPeers: 1,
};

test('reports of an account are sent one after the other, those of another beside them; the fifth is refused', async () => {
  const underWay: { accountId: number; goOn: () => void }[] = [];
  const reader = {
    async *read(accountId: number) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const report = { accountId, goOn: resolve };
      underWay.push(report);
      yield [RECORD];
      await promise;
      yield [RECORD];
      underWay.splice(underWay.indexOf(report), 1);
    },
  };
  const reports = new UsageReports(reader, Date.now, timingsWith({}).usage);
  const app = Fastify();
  registerProblems(app);
  app.get<{ Params: { account: string } }>('/:account', (request, reply: FastifyReply) =>
    reports.send(reply, Number(request.params.account), {}),
  );
  await app.ready();
  // A request is sent when its answer is awaited.
  const ask = async (url: string) => await app.inject(url);
  const answers = Array.from({ length: 4 }, () => ask('/1'));
  const ofAnother = ask('/2');
  const refused = await ask('/1');
  expect(refused.statusCode).toBe(429);
  expect(refused.headers['retry-after']).toBeDefined();
  const accounts = () => underWay.map(({ accountId }) => accountId);
  await expect.poll(accounts).toEqual([1, 2]);
  underWay[1]!.goOn();
  expect((await ofAnother).json()).toMatchObject({ total_seconds: 2 });
  for (const answer of answers) {
    await expect.poll(accounts).toEqual([1]);
    underWay[0]!.goOn();
    const { statusCode, body } = await answer;
    expect(statusCode).toBe(200);
    expect(JSON.parse(body)).toMatchObject({ total_seconds: 2, records: [{}, {}] });
  }
  await app.close();
});
