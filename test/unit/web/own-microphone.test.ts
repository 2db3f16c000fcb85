import { expect, test } from 'vitest';
import { OwnMicrophone } from '../../../web/own-microphone.ts';

type Device = { id: string; isOpen: boolean; close: () => void };

/** A browser that answers when the test says so. */
function openOwn() {
  const asked = new Map<string, PromiseWithResolvers<Device>>();
  const own = new OwnMicrophone<Device>((id) => {
    const answer = Promise.withResolvers<Device>();
    asked.set(id, answer);
    return answer.promise;
  });
  const give = (id: string): Device => {
    const device: Device = { id, isOpen: true, close: () => (device.isOpen = false) };
    asked.get(id)?.resolve(device);
    return device;
  };
  const refuse = (id: string) => asked.get(id)?.reject(new Error(`no ${id}`));
  return { own, give, refuse };
}

test('a microphone that replaces another closes it', async () => {
  const { own, give } = openOwn();
  const first = own.open('headset');
  const headset = give('headset');
  expect(await first).toBe(headset);
  const second = own.open('desk');
  expect(own.current).toBe(headset);
  const desk = give('desk');
  expect(await second).toBe(desk);
  expect(own.current).toBe(desk);
  expect([headset.isOpen, desk.isOpen]).toEqual([false, true]);
});

test.each([
  ['first', ['headset', 'desk']],
  ['last', ['desk', 'headset']],
])('the last choice counts; the other one, which is answered %s, is closed', async (_, order) => {
  const { own, give } = openOwn();
  const attempts = [own.open('headset'), own.open('desk')];
  expect(own.isOpening).toBe(true);
  const given = order.map(give);
  const [ofHeadset, ofDesk] = await Promise.all(attempts);
  expect(own.isOpening).toBe(false);
  expect(ofHeadset).toBeUndefined();
  expect(ofDesk?.id).toBe('desk');
  expect(own.current).toBe(ofDesk);
  expect(given.filter(({ isOpen }) => isOpen)).toEqual([ofDesk]);
});

test('a failure is told of the last choice alone, and leaves the microphone that there is', async () => {
  const { own, give, refuse } = openOwn();
  const first = own.open('headset');
  const headset = give('headset');
  await first;
  const overtaken = own.open('gone');
  const last = own.open('busy');
  refuse('gone');
  expect(await overtaken).toBeUndefined();
  expect(own.isOpening).toBe(true);
  refuse('busy');
  await expect(last).rejects.toThrow('no busy');
  expect(own.isOpening).toBe(false);
  expect(own.current).toBe(headset);
  expect(headset.isOpen).toBe(true);
});

test('a microphone that is lost does not end the choice of another; the end of the visit does', async () => {
  const { own, give } = openOwn();
  const first = own.open('headset');
  const headset = give('headset');
  await first;
  const second = own.open('desk');
  own.drop();
  expect([headset.isOpen, own.current, own.isOpening]).toEqual([false, undefined, true]);
  const desk = give('desk');
  expect(await second).toBe(desk);
  const late = own.open('late');
  own.close();
  expect([desk.isOpen, own.current, own.isOpening]).toEqual([false, undefined, false]);
  const device = give('late');
  expect(await late).toBeUndefined();
  expect(device.isOpen).toBe(false);
  expect(own.current).toBeUndefined();
});
