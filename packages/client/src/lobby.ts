/** Name by which the gateway calls the lobby. */
export const LOBBY = '__lobby__';
