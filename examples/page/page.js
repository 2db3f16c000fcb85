import { Microphone, PartylineClient } from 'partyline-client';

const show = (words) => (document.querySelector('p').textContent = words);
document.querySelector('button').onclick = () => join().catch((error) => show(error.message));

async function join() {
  const { origin, hash } = new URL(document.querySelector('input').value);
  const body = JSON.stringify({ invite: new URLSearchParams(hash.slice(1)).get('invite') });
  const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  const guest = await (await fetch(`${origin}/api/invites/redeem`, asked)).json();
  if (!guest.token) throw new Error(guest.detail);
  const url = `${origin.replace(/^http/, 'ws')}/ws`;
  const client = new PartylineClient({ url, peer: guest.peer, getToken: async () => guest.token });
  client.on('change', ({ name }) => show([name, ...client.peers.keys()].join(', ')));
  await client.connect();
  await client.join(guest.room, (await Microphone.open()).track);
}
