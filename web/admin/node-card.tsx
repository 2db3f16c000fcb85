import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { NodeDescription } from '../../src/operator/schemas.ts';
import type { KnownNode } from './known-nodes.ts';
import { Meter, NBSP } from './meter.tsx';

type Worker = NodeDescription['media_workers'][number];

const percent = (share: number) => `${Math.round(share * 100)}${NBSP}%`;
const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)}${NBSP}MB`;
const digits = (ms: number) => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));
const inWords = (name: string) => name.replaceAll('_', ' ');

/** A node, as far as it is known. @param title of the list, which takes the focus of a button that can no longer be pressed */
export function NodeCard({
  node,
  title,
  onDrain,
}: {
  node: KnownNode;
  title: RefObject<HTMLElement | null>;
  onDrain: () => void;
}) {
  const { id, state, description } = node;
  const isRunning = state === 'running';
  const drain = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (!isRunning && document.activeElement === drain.current) title.current?.focus();
  }, [isRunning, title]);
  const level = description?.load.level;
  return (
    <li class="card node" data-node={id} data-state={state}>
      <header>
        <div>
          <h3 class="title">{description?.name ?? id}</h3>
          {description && <p class="quiet facts">{factsOf(description)}</p>}
        </div>
        <p class="badges">
          <span class="badge state">{state}</span>{' '}
          {level && (
            <span class="badge load-level" data-level={level}>
              {level}
            </span>
          )}
        </p>
      </header>
      {description && <Details node={description} />}
      <button
        class="drain danger"
        type="button"
        disabled={!isRunning}
        onClick={onDrain}
        ref={drain}
      >
        Drain…
      </button>
    </li>
  );
}

function factsOf({ id, version, started_at: startedAt }: NodeDescription): string {
  const since = new Date(startedAt).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' });
  return `${id.slice(0, 8)} · version ${version} · since ${since}`;
}

function Details({ node }: { node: NodeDescription }) {
  const { load, peers, pipes } = node;
  const { p50, p99 } = load.loop_delay_ms;
  const figures: [name: string, term: string, value: string | number][] = [
    ['sessions', 'Clients', node.sessions],
    ['rooms-count', 'Rooms', node.rooms],
    ['websocket', 'WebSocket', peers.websocket],
    ['webrtc', 'Browsers', peers.webrtc],
    ['kept', 'Kept places', node.kept_places],
    ['pipes', 'Pipe ends / nodes', `${pipes.ends} / ${pipes.nodes}`],
    ['event-loop', 'Event loop', percent(load.cpu.event_loop)],
    ['cpu', 'CPU', percent(load.cpu.process)],
    ['memory', 'Memory', megabytes(load.memory_bytes)],
    ['delay', 'Loop delay p50 / p99, ms', `${digits(p50)} / ${digits(p99)}`],
  ];
  const dropped = Object.entries(node.dropped).filter(([, count]) => count > 0);
  const words = dropped.map(([reason, count]) => `${inWords(reason)} ${count.toLocaleString()}`);
  return (
    <div class="details">
      <dl class="figures">
        {figures.map(([name, term, value]) => (
          <div key={name}>
            <dt>{term}</dt>
            <dd class={name}>{value}</dd>
          </div>
        ))}
      </dl>
      <h4>Media workers</h4>
      <ul class="plain workers">
        {node.media_workers.map((worker) => (
          <WorkerEntry key={worker.index} worker={worker} />
        ))}
      </ul>
      <h4>Dropped</h4>
      <p class="dropped quiet">{words.length > 0 ? words.join(' · ') : 'nothing'}</p>
    </div>
  );
}

function WorkerEntry({ worker }: { worker: Worker }) {
  const { index, pid, state, cpu, routers, consumers, restarts } = worker;
  const facts = [
    `routers ${routers}`,
    `consumers ${consumers}`,
    `restarts ${restarts}`,
    `port ${worker.rtc_port}`,
    ...(pid === undefined ? [] : [`pid ${pid}`]),
  ];
  return (
    <li class="worker" data-state={state}>
      <span class="worker-name">#{index}</span>
      <Meter share={cpu} />
      <span class="share">{state === 'running' ? percent(cpu) : state}</span>
      <span class="worker-facts quiet">{facts.join(' · ')}</span>
    </li>
  );
}
