declare global {
  interface Window {
    /** Returns the last samples of the loudest of what the page plays; there after {@link tapOutput}. */
    heard?: () => number[];
  }
}

/** Runs in a page, before anything else: listens to what Web Audio plays, and to what comes by WebRTC. */
export function tapOutput(): void {
  const SAMPLES = 16_384;
  const analysers = new Map<BaseAudioContext, AnalyserNode>();
  const analyserOf = (context: BaseAudioContext) => {
    const analyser = analysers.get(context) ?? new AnalyserNode(context, { fftSize: SAMPLES });
    analysers.set(context, analyser);
    return analyser;
  };
  const connect = Object.getOwnPropertyDescriptor(AudioNode.prototype, 'connect')!.value as (
    this: AudioNode,
    ...words: unknown[]
  ) => unknown;
  Object.defineProperty(AudioNode.prototype, 'connect', {
    value(this: AudioNode, ...words: unknown[]) {
      if (words[0] instanceof AudioDestinationNode) connect.call(this, analyserOf(this.context));
      return connect.apply(this, words);
    },
  });
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration);
      this.addEventListener('track', ({ track }) => {
        const context = new AudioContext({ sampleRate: 48_000 });
        context.createMediaStreamSource(new MediaStream([track])).connect(analyserOf(context));
      });
    }
  };
  window.heard = () => {
    const sounds = [...analysers.values()].map((analyser) => {
      const samples = new Float32Array(SAMPLES);
      analyser.getFloatTimeDomainData(samples);
      return samples;
    });
    const energyOf = (sound: Float32Array) => sound.reduce((sum, each) => sum + each * each, 0);
    const [loudest] = sounds.toSorted((one, other) => energyOf(other) - energyOf(one));
    return [...(loudest ?? [])];
  };
}
