import { Microphone, PartylineClient } from 'partyline-client';

const [input, button, p, output] = ['input', 'button', 'p', 'output'].map((name) =>
  document.querySelector(name),
);

button.onclick = async () => {
  button.disabled = true; // a second click would make a second peer
  output.textContent = '';
  let microphone, client;
  try {
    const link = new URL(input.value);
    microphone = await Microphone.open(); // first, because the user may refuse
    const body = JSON.stringify({ invite: new URLSearchParams(link.hash.slice(1)).get('invite') });
    const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    const guest = await (await fetch(new URL('api/invites/redeem', link), asked)).json();
    if (!guest.token) throw new Error(guest.detail);
    const url = new URL('ws', link); // the gateway may be below a path
    client = new PartylineClient({ url, peer: guest.peer, getToken: async () => guest.token });
    client.on('fault', (message) => (output.textContent = message)); // the client continues
    client.on('change', ({ name, reason }) => {
      const words = [name, reason?.message, ...client.peers.keys()];
      p.textContent = words.filter(Boolean).join(', ');
      button.disabled = name !== 'closed';
      if (name === 'closed') microphone.close();
    });
    await client.connect();
    await client.join(guest.room, microphone.track);
    // The gateway removed the client from its room, for good.
    client.on('change', ({ name }) => name === 'lobby' && client.close());
  } catch (error) {
    client?.close();
    microphone?.close();
    p.textContent = error.message;
    button.disabled = false;
  }
};
