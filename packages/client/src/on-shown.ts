/** Calls back whenever the page becomes visible, until `signal` aborts. */
export function onShown(shown: () => void, signal: AbortSignal): void {
  const changed = () => document.visibilityState === 'visible' && shown();
  document.addEventListener('visibilitychange', changed, { signal });
}
