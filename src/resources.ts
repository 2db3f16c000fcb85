import { counters } from './counters.ts';

/** Resources that this process or its machine can run out of. */
export const RESOURCES = ['descriptors', 'memory', 'threads', 'ports', 'disk'] as const;
export type Resource = (typeof RESOURCES)[number];

/** Error codes of the system and of Node. */
const BY_CODE = new Map<string, Resource>([
  ['EMFILE', 'descriptors'],
  ['ENFILE', 'descriptors'],
  ['ENOMEM', 'memory'],
  ['ERR_WORKER_INIT_FAILED', 'threads'],
  ['ENOSPC', 'disk'],
  ['EDQUOT', 'disk'],
]);
/**
 * Error messages of a media worker, of mediasoup when it cannot start one, of a Redis that cannot write its files, and of Node when it
 * cannot read the addresses of the machine (libuv gives the positive number of ENFILE and EMFILE).
 */
const BY_WORDS: [RegExp, Resource][] = [
  [/^spawn .* EAGAIN$/, 'threads'],
  [/too many open files/, 'descriptors'],
  [/uv_interface_addresses returned Unknown system error 2[34] /, 'descriptors'],
  [/no more available ports/, 'ports'],
  [/^MISCONF /, 'disk'],
];
const MAX_CAUSES = 5;

/** Returns the resource that has run out according to a fault, or to what caused it; undefined for any other fault. */
export function resourceOf(fault: unknown): Resource | undefined {
  let each = fault;
  for (let causes = 0; causes < MAX_CAUSES && each instanceof Error; causes += 1) {
    const { code, syscall } = each as Error & { code?: string; syscall?: string };
    // A socket that would block says EAGAIN, too.
    if (code === 'EAGAIN' && syscall?.startsWith('spawn')) return 'threads';
    const { message } = each;
    const found = BY_CODE.get(code ?? '') ?? BY_WORDS.find(([words]) => words.test(message))?.[1];
    if (found) return found;
    each = each.cause;
  }
  return undefined;
}

/** Counts a fault if it was caused by a resource that has run out. */
export function noteShortage(fault: unknown): void {
  const resource = resourceOf(fault);
  if (resource) counters.shortages[resource] += 1;
}
