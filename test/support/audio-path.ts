/** Returns how a page's audio goes now: WebRTC's protocol (`udp` or `tcp`), or `websocket`. Runs in a browser. */
export async function audioPath(): Promise<string | undefined> {
  const stats = await window.partyline?.rtcStats();
  if (!stats) return window.partyline?.transport;
  type Report = { type: string; nominated?: boolean; state?: string; localCandidateId?: string };
  const reports = [...(stats.send.values() as Iterable<Report>)];
  const pair = reports.find(
    ({ type, nominated, state }) => type === 'candidate-pair' && nominated && state === 'succeeded',
  );
  const local = stats.send.get(pair?.localCandidateId ?? '') as { protocol?: string } | undefined;
  return local?.protocol;
}
