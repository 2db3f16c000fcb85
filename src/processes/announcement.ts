import type { Settings } from '../../config/settings.ts';
import { type DemoAccount, isReachable } from '../accounts/demo-account.ts';

/** The room of the link that a start prints. */
const FIRST_ROOM = 'kitchen';

/**
 * The lines that a start prints, the last of them for machines. On a node that others reach, the key of the demo account is
 * printed when it is made, and later only where it is kept: logs are read by more people than the key is for.
 */
export function announcementOf(
  { url, demo }: { url: string; demo: DemoAccount | undefined },
  settings: Pick<Settings, 'HOST' | 'TRUST_PROXY' | 'TLS_CERT'>,
): string[] {
  const lines = ['', `Partyline is running. Open ${url}`];
  if (!demo) return [...lines, ...closing({ url })];
  const { account, apiKey, isNew, keyFile } = demo;
  const known = { url, account_id: account.id };
  const who = `Demo account ${account.id} (plan ${account.plan})`;
  return isNew || !isReachable(settings)
    ? [
        ...lines,
        `Join a room at once: ${url}/#${new URLSearchParams({ room: FIRST_ROOM, key: apiKey })}`,
        `${who}, key ${apiKey}`,
        ...closing({ ...known, api_key: apiKey }),
      ]
    : [...lines, `${who}, key in ${keyFile}`, ...closing({ ...known, key_file: keyFile })];
}

const closing = (ready: object) => ['Ctrl-C stops it.', '', `ready ${JSON.stringify(ready)}`];
