"""A peer whose WebRTC is GStreamer's webrtcbin: speaks a tone over WHIP, and writes what it hears over WHEP to stdout (16 bits, mono, 48 kHz).

Usage: gstreamer_peer.py WHIP_ADDRESS WHEP_ADDRESS KEY HZ
"""

import sys
import threading
import time

import gi

gi.require_version('Gst', '1.0')
gi.require_version('GstSdp', '1.0')
gi.require_version('GstWebRTC', '1.0')
from gi.repository import Gst, GstSdp, GstWebRTC  # noqa: E402

from whip_post import post_offer  # noqa: E402

DIRECTION = GstWebRTC.WebRTCRTPTransceiverDirection
OPUS = 'application/x-rtp,media=audio,encoding-name=OPUS,payload=97,clock-rate=48000,encoding-params=(string)2'
SPEAKER = (
    'audiotestsrc is-live=true volume=0.3 freq={hz} ! audio/x-raw,rate=48000,channels=1 ! opusenc ! '
    'rtpopuspay pt=97 ! ' + OPUS + ' ! webrtcbin name=webrtc bundle-policy=max-bundle'
)
LISTENER = 'webrtcbin name=webrtc bundle-policy=max-bundle'
EAR = (
    'rtpopusdepay ! opusdec ! audioconvert ! audioresample ! '
    'audio/x-raw,format=S16LE,rate=48000,channels=1 ! fdsink fd=1 sync=false'
)


def ask(webrtc, signal, *words):
    """Emits a signal that answers by a promise, and returns the promise, fulfilled."""
    promise = Gst.Promise.new()
    webrtc.emit(signal, *words, promise)
    promise.wait()
    return promise


def connect(webrtc, address, key):
    """Posts an offer with all candidates in it, and takes the answer."""
    promise = ask(webrtc, 'create-offer', None)
    # Kept: the offer is freed with the reply, and the reply with the promise.
    reply = promise.get_reply()
    ask(webrtc, 'set-local-description', reply.get_value('offer'))
    while webrtc.get_property('ice-gathering-state') != GstWebRTC.WebRTCICEGatheringState.COMPLETE:
        time.sleep(0.02)
    text = webrtc.get_property('local-description').sdp.as_text()
    _, answer = GstSdp.SDPMessage.new_from_text(post_offer(address, key, text))
    kind = GstWebRTC.WebRTCSDPType.ANSWER
    ask(webrtc, 'set-remote-description', GstWebRTC.WebRTCSessionDescription.new(kind, answer))


def start(description):
    pipeline = Gst.parse_launch(description)
    # A pipeline of a single element would be that element.
    if not isinstance(pipeline, Gst.Pipeline):
        element, pipeline = pipeline, Gst.Pipeline.new()
        pipeline.add(element)
    return pipeline, pipeline.get_by_name('webrtc')


def speak(address, key, hz):
    pipeline, webrtc = start(SPEAKER.format(hz=hz))
    is_ready = threading.Event()
    webrtc.connect('on-negotiation-needed', lambda _: is_ready.set())
    webrtc.emit('get-transceiver', 0).set_property('direction', DIRECTION.SENDONLY)
    pipeline.set_state(Gst.State.PLAYING)
    is_ready.wait()
    connect(webrtc, address, key)
    return pipeline


def hear(address, key):
    pipeline, webrtc = start(LISTENER)

    def add_ear(_, pad):
        if pad.direction != Gst.PadDirection.SRC:
            return
        ear = Gst.parse_bin_from_description(EAR, True)
        pipeline.add(ear)
        ear.sync_state_with_parent()
        pad.link(ear.get_static_pad('sink'))

    webrtc.connect('pad-added', add_ear)
    pipeline.set_state(Gst.State.PLAYING)
    webrtc.emit('add-transceiver', DIRECTION.RECVONLY, Gst.Caps.from_string(OPUS))
    connect(webrtc, address, key)
    return pipeline


def run(whip_address, whep_address, key, hz):
    Gst.init(None)
    pipelines = [speak(whip_address, key, hz), hear(whep_address, key)]
    errors = Gst.MessageType.ERROR | Gst.MessageType.EOS
    message = pipelines[1].get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, errors)
    sys.exit(f'the pipeline has ended: {message.parse_error()}')


run(*sys.argv[1:])
