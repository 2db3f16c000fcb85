/** Silent track, for a peer without a microphone. */
export type Silence = { track: MediaStreamTrack; close: () => void };

export function openSilence(): Silence {
  const context = new AudioContext();
  const source = new ConstantSourceNode(context, { offset: 0 });
  const destination = context.createMediaStreamDestination();
  source.connect(destination);
  source.start();
  const [track] = destination.stream.getAudioTracks();
  return {
    track: track!,
    // Fails only if the context is closed already.
    close: () => void context.close().catch(() => undefined),
  };
}
