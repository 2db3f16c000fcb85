/**
 * Tools that only the tests need: browsers and other WebRTC stacks, a sound server, network namespaces, a speech synthesizer,
 * and a program that sets a wrong clock.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { provide } from './apt.mjs';
import { SetUpFailure } from './failure.mjs';
import { find } from './find.mjs';

/** Folder of Debian's modules for Python. */
const pythonModules = '/usr/lib/python3/dist-packages';
/** Folder of Debian's libraries, among them the plugins of GStreamer. */
const libraries = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;

/** @param {string} name */
const hasModule = (name) => existsSync(join(pythonModules, name));
/** @param {string} name */
const hasPlugin = (name) => existsSync(join(libraries, 'gstreamer-1.0', `libgst${name}.so`));
/** @param {string} name */
const hasTypes = (name) => existsSync(join(libraries, 'girepository-1.0', `${name}-1.0.typelib`));

/**
 * Installs those that are missing: Chromium, Firefox, PulseAudio, `ip`, `nft`, `espeak-ng`, `ffmpeg`, `sox`, `faketime`, and websockets, aiortc and GStreamer for Debian's Python.
 *
 * @param {string} [osRelease] path of the file that describes the system
 */
export async function provideTestTools(osRelease = '/etc/os-release') {
  try {
    await provide('test tools', {
      chromium: () => find('chromium') !== undefined,
      'firefox-esr': () => find('firefox-esr') !== undefined,
      pulseaudio: () => find('pulseaudio') !== undefined,
      'pulseaudio-utils': () => find('pacat') !== undefined,
      iproute2: () => find('ip') !== undefined,
      nftables: () => find('nft') !== undefined,
      'espeak-ng': () => find('espeak-ng') !== undefined,
      ffmpeg: () => find('ffmpeg') !== undefined,
      sox: () => find('sox') !== undefined,
      faketime: () => find('faketime') !== undefined,
      'python3-websockets': () => hasModule('websockets'),
      'python3-aiortc': () => hasModule('aiortc'),
      'python3-gi': () => hasModule('gi'),
      'gir1.2-gst-plugins-bad-1.0': () => hasTypes('GstWebRTC'),
      'gstreamer1.0-plugins-base': () => hasPlugin('opus'),
      'gstreamer1.0-plugins-good': () => hasPlugin('rtp'),
      'gstreamer1.0-plugins-bad': () => hasPlugin('webrtc'),
      'gstreamer1.0-nice': () => hasPlugin('nice'),
    });
  } catch (error) {
    const system = otherThanDebian(osRelease);
    if (!(error instanceof SetUpFailure) || system === undefined) throw error;
    throw new SetUpFailure(
      `${error.message} These are packages of Debian, and this is ${system} (Ubuntu has no packages of Chromium and Firefox but snaps): run the tests on Debian.`,
    );
  }
}

/**
 * @param {string} osRelease
 * @returns {string | undefined} name and version of the system; undefined if it is Debian, or does not say what it is
 */
function otherThanDebian(osRelease) {
  if (!existsSync(osRelease)) return undefined;
  const text = readFileSync(osRelease, 'utf8');
  if (/^ID="?debian"?$/m.test(text)) return undefined;
  return /^PRETTY_NAME="?([^"\n]+)/m.exec(text)?.[1];
}
