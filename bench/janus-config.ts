import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Configuration of Janus for the measurement: AudioBridge alone, controlled over WebSocket, on the loopback
 * interface.
 */

export const JANUS_PROGRAM = '/usr/bin/janus';
const LIBRARIES = '/usr/lib';
const PLUGIN = 'libjanus_audiobridge.so';
const TRANSPORT = 'libjanus_websockets.so';

/** Returns the folder of Janus's modules, which depends on the architecture; undefined if Janus is not installed. */
export function findJanusModules(): string | undefined {
  if (!existsSync(JANUS_PROGRAM)) return undefined;
  return readdirSync(LIBRARIES)
    .map((folder) => join(LIBRARIES, folder, 'janus'))
    .find((folder) => existsSync(join(folder, 'plugins', PLUGIN)));
}

/**
 * Writes a new folder with Janus's configuration, and with links to only those modules that it must load.
 * @param modules folder of Janus's modules ({@link findJanusModules})
 * @param port port of its WebSocket API
 * @returns path of the new folder
 */
export async function writeJanusConfig(modules: string, port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-janus-'));
  for (const name of ['plugins', 'transports', 'none']) await mkdir(join(folder, name));
  await symlink(join(modules, 'plugins', PLUGIN), join(folder, 'plugins', PLUGIN));
  await symlink(join(modules, 'transports', TRANSPORT), join(folder, 'transports', TRANSPORT));
  const write = (name: string, text: string) => writeFile(join(folder, `${name}.jcfg`), text);
  await write('janus', general(folder));
  await write('janus.transport.websockets', webSocketTransport(port));
  await write('janus.plugin.audiobridge', AUDIO_BRIDGE);
  return folder;
}

const general = (folder: string) => `general: {
  configs_folder = "${folder}"
  plugins_folder = "${folder}/plugins"
  transports_folder = "${folder}/transports"
  events_folder = "${folder}/none"
  loggers_folder = "${folder}/none"
  debug_level = 3
  debug_colors = false
  interface = "127.0.0.1"
  session_timeout = 0
}
nat: {
  ice_enforce_list = "lo"
}
events: {
  broadcast = false
}
`;

const webSocketTransport = (port: number) => `general: {
  json = "compact"
  ws = true
  ws_port = ${port}
  ws_ip = "127.0.0.1"
  wss = false
}
admin: {
  admin_ws = false
  admin_wss = false
}
`;

const AUDIO_BRIDGE = `general: {
  events = false
  rtp_port_range = "40000-44000"
  local_ip = "127.0.0.1"
}
`;
