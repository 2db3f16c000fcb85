/** A bar that is longer for more. @param share 0 to 1 */
export function Meter({ share }: { share: number }) {
  const bounded = Math.min(1, Math.max(0, share));
  return (
    <span class="meter" aria-hidden="true" style={{ '--share': bounded.toFixed(2) }}>
      <i />
    </span>
  );
}

/** Keeps a number and its unit on one line. */
export const NBSP = '\u00a0';
