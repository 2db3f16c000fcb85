/** Reserved name of the lobby on the wire. */
export const LOBBY = '__lobby__';
