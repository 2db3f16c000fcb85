import { Microphone, PartylineClient } from 'partyline-client';

document.querySelector('button').onclick = async () => {
  const { origin, hash } = new URL(document.querySelector('input').value);
  const body = JSON.stringify({ invite: new URLSearchParams(hash.slice(1)).get('invite') });
  const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  const guest = await (await fetch(`${origin}/api/invites/redeem`, asked)).json();
  const url = `${origin.replace(/^http/, 'ws')}/ws`;
  const client = new PartylineClient({ url, peer: guest.peer, getToken: async () => guest.token });
  const show = ({ name }) => [name, ...client.peers.keys()].join(', ');
  client.on('change', (state) => (document.querySelector('p').textContent = show(state)));
  await client.connect();
  await client.join(guest.room, (await Microphone.open()).track);
};
