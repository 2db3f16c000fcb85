"""Plays a WAV file into a room, and records what the others say until Ctrl-C.

Usage: python3 talk.py URL KEY ROOM PLAYED.wav RECORDED.wav
"""

import asyncio
import json
import logging
import os
import sys
import wave
from urllib.parse import urlencode

import websockets

FRAME_S = 0.02
PAUSE_S = 1
# Code with which a client closes that means to come back.
LOST = 4408


def is_of_gateway(code):
    """Returns whether a close code is one that the gateway uses after an error; with any other, a proxy or the network ended the connection."""
    return code in (1009, 1011, 1012, 1013) or code >= 4000


async def speak(socket, frames):
    """Sends a frame every 20 ms: the gateway throws away what comes faster than it is played."""
    clock = asyncio.get_running_loop().time
    due_s = clock()
    for frame in frames:
        await socket.send(frame)
        # After a stall it does not hurry to make up for more than a second.
        due_s = max(due_s + FRAME_S, clock() - 1)
        await asyncio.sleep(due_s - clock())


async def listen(socket, recorded):
    """Writes what is heard; returns the gateway's last word, if it was an error, once the connection has ended."""
    error = {}
    in_room = False
    try:
        async for message in socket:
            error = {}
            if isinstance(message, bytes):
                recorded.writeframes(message)
                continue
            told = json.loads(message)
            if told['type'] in ('joined', 'peer_joined', 'peer_left', 'error'):
                print(message, flush=True)
            if told['type'] == 'joined':
                in_room = True
            if told['type'] == 'error':
                error = told
                # A room that is refused leaves the client in the lobby, connected.
                if not in_room:
                    await socket.close(LOST)
                    break
    except websockets.ConnectionClosed:
        pass
    # If the room is refused, this program closes: the error stays the reason.
    return error if is_of_gateway(socket.close_code) or not in_room else {}


async def talk(url, key, room, played, recorded):
    rate, channels = played.getframerate(), played.getnchannels()
    recorded.setparams(played.getparams())
    query = {
        'room': room,
        'peer': f'python {os.getpid()}',
        'api_key': key,
        'audio': f'pcm_s16le;rate={rate};channels={channels}',
    }
    address = f'{url.replace("http", "ws", 1).rstrip("/")}/ws?{urlencode(query)}'
    # Shared by all connections: after a break the sound goes on where it was.
    frames = iter(lambda: played.readframes(round(rate * FRAME_S)), b'')

    async def take_part(socket):
        """Speaks and listens until the connection ends, and waits until another one makes sense."""
        speaking = asyncio.create_task(speak(socket, frames))
        error = await listen(socket, recorded)
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
        if not error.get('retryable', True):
            sys.exit(error['message'])
        print(error.get('message', 'The connection broke.'), 'Trying again.', flush=True)
        await asyncio.sleep(error.get('retry_after_ms', 1000 * PAUSE_S) / 1000)

    # If not even the first connection opens, the address is wrong, or no gateway is there.
    try:
        socket = await websockets.connect(address)
    except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
        sys.exit(f'Cannot connect to {url}: {str(error) or type(error).__name__}')
    try:
        await take_part(socket)
    finally:
        await socket.close()
    # Connects again and again; while the gateway cannot be reached, ever more seldom.
    async for socket in websockets.connect(address):
        await take_part(socket)


def shorten(record):
    """Leaves the traceback out of a message of the package, which says how a connection failed."""
    record.exc_info = None
    return True


def main(url, key, room, played_file, recorded_file):
    with wave.open(played_file) as played, wave.open(recorded_file, 'wb') as recorded:
        if played.getsampwidth() != 2:
            sys.exit('The WAV file must have samples of 16 bits.')
        try:
            asyncio.run(talk(url, key, room, played, recorded))
        except KeyboardInterrupt:
            print(f'Recorded {recorded.getnframes() / recorded.getframerate():.1f} s.')


if __name__ == '__main__':
    if len(sys.argv) != 6 or not sys.argv[1].startswith('http'):
        sys.exit(__doc__)
    # The package tells at this level when it tries again.
    logging.basicConfig(level=logging.INFO, format='%(message)s')
    logging.getLogger('websockets.client').addFilter(shorten)
    main(*sys.argv[1:])
