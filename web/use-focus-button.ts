import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** Returns the reference of a button; when it goes while it has the focus, `title` takes the focus. */
export function useFocusButton(
  title: RefObject<HTMLElement | null>,
): RefObject<HTMLButtonElement | null> {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const shown = button.current;
    return () => {
      if (document.activeElement === shown) title.current?.focus();
    };
  }, [title]);
  return button;
}
