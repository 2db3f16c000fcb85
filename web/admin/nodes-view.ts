import type { NodeDescription } from '../../src/operator/schemas.ts';
import { element, part } from '../element.ts';
import { Entries, measure, NBSP, onPress, say } from './entries.ts';
import type { KnownNode } from './known-nodes.ts';

type Worker = NodeDescription['media_workers'][number];

const percent = (share: number) => `${Math.round(share * 100)}${NBSP}%`;
const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)}${NBSP}MB`;
const digits = (ms: number) => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));
const inWords = (name: string) => name.replaceAll('_', ' ');

/** The cards of the nodes. */
export class NodesView {
  readonly #entries: Entries<KnownNode>;

  constructor(onDrain: (node: KnownNode) => void) {
    this.#entries = new Entries(
      element('nodes', HTMLUListElement),
      'node',
      ({ id }) => id,
      (card, { id }) => {
        card.dataset['node'] = id;
        const workers = new Entries<Worker>(
          part(card, '.workers', HTMLUListElement),
          'worker',
          ({ index }) => String(index),
          (entry) => (worker) => showWorker(entry, worker),
        );
        let latest: KnownNode | undefined;
        const drain = onPress(card, '.drain', () => latest && onDrain(latest));
        return (node) => {
          latest = node;
          card.dataset['state'] = node.state;
          drain.disabled = node.state !== 'running';
          say(card, '.title', node.description?.name ?? node.id);
          say(card, '.state', node.state);
          part(card, '.details', HTMLElement).hidden = !node.description;
          part(card, '.load-level', HTMLElement).hidden = !node.description;
          if (!node.description) return;
          showNode(card, node.description);
          workers.show(node.description.media_workers);
        };
      },
    );
  }

  show(nodes: KnownNode[]): void {
    this.#entries.show(nodes);
  }
}

function showNode(card: HTMLElement, node: NodeDescription): void {
  const { load, peers, pipes } = node;
  const since = new Date(node.started_at).toLocaleString([], {
    dateStyle: 'short',
    timeStyle: 'short',
  });
  say(card, '.facts', `${node.id.slice(0, 8)} · version ${node.version} · since ${since}`);
  say(card, '.load-level', load.level);
  part(card, '.load-level', HTMLElement).dataset['level'] = load.level;
  say(card, '.sessions', node.sessions);
  say(card, '.rooms-count', node.rooms);
  say(card, '.websocket', peers.websocket);
  say(card, '.webrtc', peers.webrtc);
  say(card, '.kept', node.kept_places);
  say(card, '.pipes', `${pipes.ends} / ${pipes.nodes}`);
  say(card, '.event-loop', percent(load.cpu.event_loop));
  say(card, '.cpu', percent(load.cpu.process));
  say(card, '.memory', megabytes(load.memory_bytes));
  const { p50, p99 } = load.loop_delay_ms;
  say(card, '.delay', `${digits(p50)} / ${digits(p99)}`);
  const dropped = Object.entries(node.dropped).filter(([, count]) => count > 0);
  const words = dropped.map(([reason, count]) => `${inWords(reason)} ${count.toLocaleString()}`);
  say(card, '.dropped', words.length > 0 ? words.join(' · ') : 'nothing');
}

function showWorker(entry: HTMLElement, worker: Worker): void {
  const { index, pid, state, cpu, routers, consumers, restarts } = worker;
  entry.dataset['state'] = state;
  say(entry, '.worker-name', `#${index}`);
  say(entry, '.share', state === 'running' ? percent(cpu) : state);
  measure(entry, cpu);
  const facts = [
    `routers ${routers}`,
    `consumers ${consumers}`,
    `restarts ${restarts}`,
    `port ${worker.rtc_port}`,
    ...(pid === undefined ? [] : [`pid ${pid}`]),
  ];
  say(entry, '.worker-facts', facts.join(' · '));
}
