"""A peer whose WebRTC is aiortc: speaks a tone over WHIP, and writes what it hears over WHEP to stdout (16 bits, mono, 48 kHz).

Usage: aiortc_peer.py WHIP_ADDRESS WHEP_ADDRESS KEY HZ
"""

import asyncio
import math
import sys
import time
from array import array
from fractions import Fraction

from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from whip_post import post_offer

RATE_HZ = 48_000
FRAME_SAMPLES = RATE_HZ // 50
AMPLITUDE = 0.3


class Tone(MediaStreamTrack):
    kind = 'audio'

    def __init__(self, hz):
        super().__init__()
        self._step = 2 * math.pi * hz / RATE_HZ
        self._sent = 0
        self._start_s = None

    async def recv(self):
        now_s = time.monotonic()
        self._start_s = self._start_s or now_s
        await asyncio.sleep(max(0, self._start_s + self._sent / RATE_HZ - now_s))
        at = range(self._sent, self._sent + FRAME_SAMPLES)
        samples = array('h', (round(32_767 * AMPLITUDE * math.sin(self._step * i)) for i in at))
        frame = AudioFrame(format='s16', layout='mono', samples=FRAME_SAMPLES)
        frame.planes[0].update(samples.tobytes())
        frame.sample_rate = RATE_HZ
        frame.time_base = Fraction(1, RATE_HZ)
        frame.pts = self._sent
        self._sent += FRAME_SAMPLES
        return frame


async def write_heard(track):
    while True:
        frame = await track.recv()
        # Interleaved stereo; the plane may be longer than the frame.
        stereo = array('h', bytes(frame.planes[0])[: 4 * frame.samples])
        sys.stdout.buffer.write(stereo[::2].tobytes())
        sys.stdout.buffer.flush()


async def connect(connection, address, key):
    await connection.setLocalDescription(await connection.createOffer())
    offer = connection.localDescription.sdp
    answer = await asyncio.get_running_loop().run_in_executor(None, post_offer, address, key, offer)
    await connection.setRemoteDescription(RTCSessionDescription(answer, 'answer'))


async def run(whip_address, whep_address, key, hz):
    no_servers = RTCConfiguration(iceServers=[])
    speaking = RTCPeerConnection(no_servers)
    speaking.addTransceiver(Tone(float(hz)), direction='sendonly')
    await connect(speaking, whip_address, key)
    hearing = RTCPeerConnection(no_servers)
    hearing.addTransceiver('audio', direction='recvonly')
    tracks = asyncio.Queue()
    hearing.on('track', tracks.put_nowait)
    await connect(hearing, whep_address, key)
    await write_heard(await tracks.get())


asyncio.run(run(*sys.argv[1:]))
