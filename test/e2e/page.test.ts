import { isDeepStrictEqual } from 'node:util';
import { expect, test, vi } from 'vitest';
import { accessibilityFaults, isDrawnInForcedColors, tabTo } from '../support/accessibility.ts';
import { shareBrowsers, TestBrowser } from '../support/browser.ts';
import { eventually } from '../support/gateway.ts';
import type { TestClient } from '../support/client.ts';
import { TestProxy } from '../support/proxy.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The page as a person in a room uses it: by its fields and buttons, and by what it shows. */

const ROOM = 'kitchen';

declare global {
  interface Window {
    /** In place of `getUserMedia`. @param open opens the browser's microphone */
    openMicrophone?: (open: () => Promise<MediaStream>) => Promise<MediaStream>;
    /** Lets an opening that waits go on. */
    allowMicrophone?: () => void;
    /** States of the tracks that the client was given. */
    takenTracks?: string[];
    /** Track of the microphone that was opened last. */
    lastTrack?: MediaStreamTrack;
    /** True after the click without which a browser plays nothing. */
    mayPlay?: boolean;
  }
}

shareBrowsers();
const used = useGateway();

async function openBrowser(microphoneHz = 800): Promise<TestBrowser> {
  return used.keep(await TestBrowser.openRaw(used.gateway.url, microphoneHz));
}

const enter = (peer: string) => used.enter(peer, { room: ROOM });

const expectSpeaking = (browser: TestBrowser, peer: string, isSpeaking: boolean) =>
  vi.waitFor(async () => {
    const shown = await browser.person(peer).getAttribute('data-speaking');
    expect(shown).toBe(String(isSpeaking));
  }, SETTLING);

/** The `peer_left` of `peer` that `client` was sent. */
const leftAs = (client: TestClient, peer: string) =>
  client.until(`peer_left of ${peer}`, () =>
    client.messages.find((message) => message.type === 'peer_left' && message.peer === peer),
  );

test('Join: the page shows who is there and what each is; the others are told', async () => {
  const legacy = await enter('door phone');
  const [ada, grace] = [await openBrowser(), await openBrowser()];
  const { apiKey } = used.gateway;
  await ada.join(ROOM, 'Ada', apiKey);
  expect(await legacy.next('peer_joined')).toMatchObject({ peer: 'Ada', kind: 'webrtc' });
  expect(await ada.page.locator('#room-title').innerText()).toBe(ROOM);
  expect(await ada.names()).toEqual(['Ada', 'door phone']);
  await grace.join(ROOM, 'Grace', apiKey);
  await ada.person('Grace').waitFor();
  // On a slow machine it says at first that WebRTC is not connected.
  const status = () => ada.page.locator('#room-status').innerText();
  await expect.poll(status, SETTLING).toContain('with 2 others');
  const kinds = await ada.page.locator('.person .kind').allInnerTexts();
  expect(kinds).toEqual(['WebRTC · you', 'WebSocket', 'WebRTC']);
  expect(await grace.names()).toEqual(['Grace', 'door phone', 'Ada']);
  await legacy.close();
  await ada.person('door phone').waitFor({ state: 'detached' });
  await grace.page.click('#leave');
  await ada.person('Grace').waitFor({ state: 'detached' });
  await ada.page.locator('#alone').waitFor({ state: 'visible' });
});

test('the page shows a peer as speaking for as long as it speaks', async () => {
  const legacy = await enter('door phone');
  const [grace, ada] = [await openBrowser(), await openBrowser()];
  await grace.join(ROOM, 'Grace', used.gateway.apiKey);
  await grace.page.click('#mute');
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await expectSpeaking(ada, 'Ada', true);
  await expectSpeaking(grace, 'Ada', true);
  await expectSpeaking(ada, 'Grace', false);
  await expectSpeaking(ada, 'door phone', false);
  const speech = used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  await expectSpeaking(ada, 'door phone', true);
  await expectSpeaking(grace, 'door phone', true);
  await takeScreenshots(ada);
  await speech.close();
  await expectSpeaking(ada, 'door phone', false);
  const isAdaSpeaking = () => ada.person('Ada').getAttribute('data-speaking');
  await expect.poll(isAdaSpeaking, SETTLING).toBe('true');
});

/** For docs/: SCREENSHOT=docs/room writes docs/room.png, docs/room-dark.png and docs/room-phone.png. */
async function takeScreenshots({ page }: TestBrowser): Promise<void> {
  const screenshot = process.env['SCREENSHOT'];
  if (!screenshot) return;
  await page.mouse.move(0, 0);
  await page.setViewportSize({ width: 1000, height: 480 });
  await page.screenshot({ path: `${screenshot}.png` });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: `${screenshot}-dark.png` });
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 390, height: 800 });
  await page.screenshot({ path: `${screenshot}-phone.png` });
}

test('a WebSocket client is told when a browser speaks, and when it has ceased to', async () => {
  const legacy = await enter('door phone');
  const isTold = (peers: string[]) => () => {
    const last = legacy.messages.findLast((message) => message.type === 'speaking');
    return last &&
      isDeepStrictEqual(
        last.peers.map(({ peer }) => peer),
        peers,
      )
      ? last
      : undefined;
  };
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const told = await legacy.until('word that Ada speaks', isTold(['Ada']));
  expect(told.peers[0]!.level_dbov).toBeGreaterThan(-30);
  await ada.page.click('#mute');
  await legacy.until('word that nobody speaks', isTold([]));
});

test('a page that is opened while a peer speaks steadily shows it as speaking', async () => {
  const legacy = await enter('door phone');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  await legacy.next('speaking');
  const ada = await openBrowser();
  await ada.enter(ROOM, 'Ada', used.gateway.apiKey, '#listen');
  const phone = ada.person('door phone');
  await phone.waitFor();
  await vi.waitFor(
    async () => expect(await phone.getAttribute('data-speaking')).toBe('true'),
    SETTLING,
  );
});

test('Hear yourself: the echo room, with a level, and back to the entrance', async () => {
  const ada = await openBrowser();
  await ada.enter(ROOM, 'Ada', used.gateway.apiKey, '#try');
  const title = ada.page.locator('#room-title');
  await title.waitFor({ state: 'visible' });
  expect(await title.innerText()).toBe('Hear yourself');
  const received = () =>
    ada.page.evaluate(async () => (await window.partyline?.stats())?.receivedBitrate ?? 0);
  await expect.poll(received, SETTLING).toBeGreaterThan(2000);
  const ownLevel = () =>
    ada.page
      .locator('#own-level')
      .evaluate((meter) => Number(getComputedStyle(meter).getPropertyValue('--level')));
  await expect.poll(ownLevel, SETTLING).toBeGreaterThan(0.5);
  await ada.page.click('#leave');
  await ada.page.locator('#entrance').waitFor({ state: 'visible' });
  expect(await ada.page.locator('#room').inputValue()).toBe(ROOM);
  expect(ada.page.url()).not.toContain('echo');
});

test('the page says which way sound goes, has volumes by person, and speaks by another microphone', async () => {
  const legacy = await enter('door phone');
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  expect(await ada.page.locator('#room-way').innerText()).toBe('Audio uses WebRTC.');
  await ada.person('door phone').locator('.volume').fill('0.5');
  expect(await ada.page.evaluate(() => window.partyline?.volumeOf('door phone'))).toBe(0.5);
  await ada.page.click('#devices summary');
  const microphones = ada.page.locator('#microphones');
  const options = () => microphones.locator('option').count();
  await expect.poll(options, SETTLING).toBeGreaterThan(1);
  await microphones.selectOption({ index: 1 });
  await expectSpeaking(ada, 'Ada', true);
  legacy.frames.length = 0;
  await vi.waitFor(() => expect(legacy.frames.length).toBeGreaterThan(25), SETTLING);

  await expect.poll(() => microphones.inputValue(), SETTLING).not.toBe('');
  const plug = (state: 'all' | 'none' | 'hidden') =>
    ada.page.evaluate(async (list) => {
      const { mediaDevices } = navigator;
      Reflect.deleteProperty(mediaDevices, 'enumerateDevices');
      const devices = await mediaDevices.enumerateDevices();
      const hidden = devices.map(({ kind }) => ({ kind, deviceId: '', label: '' }));
      const listed = { all: devices, none: [], hidden: hidden as MediaDeviceInfo[] }[list];
      mediaDevices.enumerateDevices = async () => listed;
      mediaDevices.dispatchEvent(new Event('devicechange'));
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    }, state);
  // As when the permission is withdrawn.
  await plug('hidden');
  expect(await microphones.inputValue()).not.toBe('');
  await plug('none');
  await expect.poll(options, SETTLING).toBe(1);
  await plug('all');
  await expect.poll(options, SETTLING).toBeGreaterThan(1);
  expect(await microphones.inputValue()).toBe('');

  await ada.page.evaluate(() => {
    navigator.mediaDevices.getUserMedia = () =>
      Promise.reject(new OverconstrainedError('deviceId'));
  });
  await microphones.selectOption({ index: 1 });
  const notice = () => ada.page.locator('#notice-text').innerText();
  await expect
    .poll(notice, SETTLING)
    .toMatch(/no longer available.*previous microphone stays in use/);
  expect(await microphones.inputValue()).toBe('');
});

test('the keyboard alone leads in, through the room and out; axe-core finds no fault on the way', async () => {
  await enter('door phone');
  const { page } = await openBrowser();
  const focused = page.locator(':focus');
  expect(await focused.getAttribute('id')).toBe('room');
  expect(await accessibilityFaults(page)).toEqual([]);
  const { apiKey } = used.gateway;
  for (const text of [ROOM, 'Ada', apiKey]) {
    await page.keyboard.type(text);
    await page.keyboard.press('Tab');
  }
  await page.keyboard.press('Enter');
  await page.locator('#room-view').waitFor({ state: 'visible' });
  expect(await focused.getAttribute('id')).toBe('room-title');

  await tabTo(page, '.volume');
  await page.keyboard.press('ArrowLeft');
  expect(await page.evaluate(() => window.partyline?.volumeOf('door phone'))).toBe(0.95);
  await tabTo(page, '#mute');
  await page.keyboard.press('Space');
  await page.getByText('Unmute').waitFor();
  await tabTo(page, '#invite');
  await page.keyboard.press('Enter');
  await page.locator('#invitation').waitFor({ state: 'visible' });
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press('Escape');
  await page.locator('#invitation').waitFor({ state: 'hidden' });
  expect(await focused.getAttribute('id')).toBe('invite');
  await tabTo(page, '#devices summary');
  await page.keyboard.press('Enter');
  await page.locator('#microphones').waitFor({ state: 'visible' });
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press('Shift+Tab');
  expect(await focused.getAttribute('id')).toBe('leave');
  await page.keyboard.press('Enter');
  await page.locator('#entrance').waitFor({ state: 'visible' });
  expect(await focused.getAttribute('id')).toBe('entrance-title');
});

test('axe-core finds no fault while the page reconnects; forced colours show who speaks', async () => {
  await enter('door phone');
  const proxy = await TestProxy.open(used.gateway.url);
  try {
    const ada = used.keep(await TestBrowser.openRaw(proxy.url, 800));
    await ada.join(ROOM, 'Ada', used.gateway.apiKey);
    await expectSpeaking(ada, 'Ada', true);
    for (const bar of [
      ada.person('Ada').locator('.voice i').first(),
      ada.page.locator('#own-level'),
    ]) {
      expect(await isDrawnInForcedColors(bar)).toBe(true);
    }
    proxy.cut();
    await ada.page.locator('#room-view[data-away="true"]').waitFor();
    expect(await accessibilityFaults(ada.page)).toEqual([]);
  } finally {
    await proxy.close();
  }
});

test('Mute: the others hear nothing more; Unmute: they hear again', async () => {
  const legacy = await enter('door phone');
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const isHeard = () =>
    vi.waitFor(async () => {
      expect(legacy.frames.length).toBeGreaterThan(75);
      expect(peakHz(await lastSecondOf(legacy))).toBe(800);
    }, SETTLING);
  await isHeard();

  const label = ada.page.locator('#mute-label');
  await ada.page.click('#mute');
  expect(await label.innerText()).toBe('Unmute');
  await vi.waitFor(async () => {
    const before = legacy.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(legacy.frames.length).toBe(before);
  }, SETTLING);
  await expectSpeaking(ada, 'Ada', false);

  legacy.frames.length = 0;
  await ada.page.click('#mute');
  expect(await label.innerText()).toBe('Mute');
  await isHeard();
});

test('a browser that plays only after a click: Play is there until it plays', async () => {
  const legacy = await enter('door phone');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  const ada = await openBrowser();
  await ada.page.addInitScript(() => {
    window.Audio = class extends Audio {
      override play(): Promise<void> {
        if (window.mayPlay) return super.play();
        return Promise.reject(new DOMException('Click first.', 'NotAllowedError'));
      }
    };
  });
  await ada.page.reload();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const button = ada.page.locator('#play');
  await button.waitFor();
  const status = () => ada.page.locator('#room-status').innerText();
  await expect.poll(status, SETTLING).toContain('only after a click');
  await ada.page.evaluate(() => (window.mayPlay = true));
  await button.click();
  await button.waitFor({ state: 'detached' });
  await expect.poll(status, SETTLING).toContain('with one other');
  expect(await ada.page.evaluate(() => document.activeElement?.id)).toBe('room-title');
});

test('Leave: the others are told, the entrance is back, and Join leads in again', async () => {
  const legacy = await enter('door phone');
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await ada.page.click('#leave');
  await ada.page.locator('#entrance').waitFor({ state: 'visible' });
  expect(await ada.page.locator('#entrance-error').isVisible()).toBe(false);
  expect(await leftAs(legacy, 'Ada')).toMatchObject({ reason: 'left' });
  await eventually('only the WebSocket peer is left', () => used.gateway.counts().sessions === 1);
  await ada.page.click('#join');
  await ada.person('door phone').waitFor();
});

test('a page that the browser restores after it was left shows the entrance, and Join leads in again', async () => {
  const legacy = await enter('door phone');
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await ada.page.evaluate(() => {
    for (const name of ['pagehide', 'pageshow']) {
      window.dispatchEvent(new PageTransitionEvent(name, { persisted: true }));
    }
  });
  await ada.page.locator('#entrance').waitFor({ state: 'visible' });
  expect(await leftAs(legacy, 'Ada')).toMatchObject({ reason: 'left' });
  await ada.page.click('#join');
  await ada.person('door phone').waitFor();
});

test('Join and only listen: hears without a microphone; Use mic: is heard too', async () => {
  const legacy = await enter('door phone');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  const ada = await openBrowser();
  await ada.enter(ROOM, 'Ada', used.gateway.apiKey, '#listen');
  await vi.waitFor(async () => expect(peakHz(await ada.hear('door phone'))).toBe(1000), SETTLING);
  expect(legacy.frames).toEqual([]);
  const label = ada.page.locator('#mute-label');
  expect(await label.innerText()).toBe('Use mic');
  await ada.page.click('#mute');
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
  }, SETTLING);
  expect(await label.innerText()).toBe('Mute');
});

test('a microphone that is not allowed is told in words; the page hears all the same', async () => {
  const legacy = await enter('door phone');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  const ada = used.keep(await TestBrowser.open(`${used.gateway.url}/?transports=webrtc`));
  // There before the room is: what it is told on the way in is read.
  const said = await ada.page.$('#notice-said');
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const words = await ada.page.locator('#notice-text').innerText();
  expect(words).toMatch(/did not let this page use the microphone.*nobody hears you/);
  expect(await said?.textContent()).toBe(words);
  await ada.page.locator('#notice-close').press('Enter');
  await ada.page.locator('#notice').waitFor({ state: 'detached' });
  expect(await ada.page.evaluate(() => document.activeElement?.id)).toBe('room-title');
  await vi.waitFor(async () => expect(peakHz(await ada.hear('door phone'))).toBe(1000), SETTLING);
  expect(legacy.frames).toEqual([]);
});

test('a microphone that is there again ends the notice that it was not', async () => {
  const ada = await openBrowser();
  await ada.page.addInitScript(() => {
    const devices = navigator.mediaDevices;
    const open = devices.getUserMedia.bind(devices);
    window.openMicrophone = () => Promise.reject(new DOMException('None.', 'NotFoundError'));
    devices.getUserMedia = (wanted) => window.openMicrophone!(() => open(wanted));
  });
  await ada.page.reload();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const notice = ada.page.locator('#notice-text');
  const label = ada.page.locator('#mute-label');
  expect(await notice.innerText()).toMatch(/No microphone was found.*nobody hears you/);
  await ada.page.evaluate(() => {
    window.openMicrophone = async (open) => {
      const stream = await open();
      window.lastTrack = stream.getAudioTracks()[0]!;
      return stream;
    };
  });
  await ada.page.click('#mute');
  await notice.waitFor({ state: 'detached' });
  await expect.poll(() => label.innerText(), SETTLING).toBe('Mute');
  // It is unplugged. While the next one is being opened, the client has none whose end it would
  // tell.
  await ada.page.evaluate(() => {
    const client = window.partyline!;
    const take = client.setMicrophone.bind(client);
    client.setMicrophone = (track) => {
      window.takenTracks = [...(window.takenTracks ?? []), track?.readyState ?? 'none'];
      return take(track);
    };
    window.openMicrophone = (open) =>
      new Promise((resolve) => (window.allowMicrophone = () => resolve(open())));
    window.lastTrack!.stop();
    window.lastTrack!.dispatchEvent(new Event('ended'));
  });
  await ada.page.waitForFunction(() => window.allowMicrophone);
  expect(await label.innerText()).toBe('Use mic');
  expect(await ada.page.evaluate(() => window.takenTracks)).toEqual(['none']);
  await ada.page.evaluate(() => window.allowMicrophone!());
  await expect.poll(() => label.innerText(), SETTLING).toBe('Mute');
  expect(await notice.isVisible()).toBe(false);
});

test('a page whose name another connection takes says so, and does not take it back', async () => {
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const second = await enter('Ada');
  const error = ada.page.locator('#entrance-error');
  await error.waitFor({ state: 'visible' });
  expect(await error.innerText()).toMatch(/Another connection uses your name/);
  expect(await ada.page.evaluate(() => window.partyline?.state.name)).toBe('closed');
  await second.ask({ type: 'leave' }, 'left');
  expect(used.gateway.counts().sessions).toBe(1);
});

test('a tab that is closed leaves the room, and so does a browser that is killed', async () => {
  const legacy = await enter('door phone');
  const closeTabOf = async (name: string) => {
    const browser = await openBrowser();
    await browser.join(ROOM, name, used.gateway.apiKey);
    await browser.page.close();
    const left = await leftAs(legacy, name);
    return left.type === 'peer_left' ? left.reason : '';
  };
  // Chromium gives a tab that is closed half a second to run its handlers; a busy machine may not
  // run them in that time.
  const reasons: string[] = [];
  for (const name of ['Ada', 'Ida', 'Oda', 'Uda']) {
    reasons.push(await closeTabOf(name));
    if (reasons.at(-1) === 'left') break;
  }
  expect(reasons.at(-1)).toBe('left');
  const eve = used.keep(
    await TestBrowser.openRaw(used.gateway.url, 800, 'webrtc', { isAlone: true }),
  );
  await eve.join(ROOM, 'Eve', used.gateway.apiKey);
  await eve.kill();
  expect(await leftAs(legacy, 'Eve')).toMatchObject({ reason: 'closed' });
  await legacy.close();
  await eventually('nobody is left', () => {
    const { sessions, rooms } = used.gateway.counts();
    return sessions === 0 && rooms === 0;
  });
});
