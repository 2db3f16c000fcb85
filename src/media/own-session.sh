#!/bin/sh
# Runs the media worker in a session of its own: Ctrl-C, which a terminal sends to all processes in its foreground, would end
# it before the calls. mediasoup starts it without.
exec setsid -- "$PARTYLINE_MEDIA_WORKER" "$@"
