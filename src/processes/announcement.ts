import { encodeQR } from 'qr';
import type { Settings } from '../../config/settings.ts';
import { type DemoAccount, isReachable } from '../accounts/demo-account.ts';
import { unblockedStdout } from '../stdout.ts';

/** The room of the link that a start prints. */
const FIRST_ROOM = 'kitchen';

/** Addresses at which devices in the local network reach a gateway started with `--lan`. */
type LanView = {
  /** URLs of the gateway at the addresses of this machine that other devices reach. */
  urls: readonly string[];
  /** True if the output is a terminal: the key is printed at each start, with a QR code. */
  isTerminal: boolean;
};

/**
 * Returns the lines that a start prints, the last of them for programs. On a node that others reach, the key
 * of the demo account is printed when it is made, and later only the path of its file, because logs have more
 * readers than the key should.
 */
export function announcementOf(
  { url, demo }: { url: string; demo: DemoAccount | undefined },
  settings: Pick<Settings, 'HOST' | 'TRUST_PROXY' | 'TLS_CERT'>,
  lan?: LanView,
): string[] {
  const [base = url] = lan?.urls ?? [];
  // With --lan first the address that others reach: invitations have the address at which the page
  // is open.
  const lines = ['', `Partyline is running. Open ${base}`, ...(lan ? wordsFor(lan, url) : [])];
  const reached = lan ? { url, lan_urls: lan.urls } : { url };
  if (!demo) return [...lines, ...closing(reached)];
  const { account, apiKey, isNew, keyFile } = demo;
  const known = { ...reached, account_id: account.id };
  const who = `Demo account ${account.id} (plan ${account.plan})`;
  if (!isNew && isReachable(settings) && !lan?.isTerminal) {
    return [...lines, `${who}, key in ${keyFile}`, ...closing({ ...known, key_file: keyFile })];
  }
  const link = `${base}/#${new URLSearchParams({ room: FIRST_ROOM, key: apiKey }).toString()}`;
  return [
    ...lines,
    `Join a room at once: ${link}`,
    ...(lan?.isTerminal ? qrCode(link) : []),
    `${who}, key ${apiKey}`,
    ...closing({ ...known, api_key: apiKey }),
  ];
}

/** Prints {@link announcementOf}. */
export function announce(...start: Parameters<typeof announcementOf>): void {
  unblockedStdout().write(`${announcementOf(...start).join('\n')}\n`);
}

function wordsFor({ urls }: LanView, url: string): string[] {
  if (urls.length === 0)
    return ['No other device reaches this machine: it has no network address.'];
  return [
    ...urls.map((each) => `On other devices in this network: ${each}`),
    `On this machine alone: ${url}`,
    'Their browsers warn of the certificate, because this machine made it: accept it once.',
  ];
}

/** Draws a QR code white on black, two modules per character, so that a camera reads it from a terminal of any colours. */
const qrCode = (text: string) =>
  encodeQR(text, 'ascii', { ecc: 'low' })
    .trimEnd()
    .split('\n')
    .map((line) => `\x1b[97;40m${line}\x1b[0m`);

const closing = (ready: object) => ['Ctrl-C stops it.', '', `ready ${JSON.stringify(ready)}`];
