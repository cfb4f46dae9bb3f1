import { effect, type ReadonlySignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Renders again after a signal changes, at most once per `ms` milliseconds. */
export function useCalm(changes: ReadonlySignal<unknown>, ms: number): void {
  const [, render] = useState(0);
  useEffect(() => {
    let waiting: ReturnType<typeof setTimeout> | undefined;
    const end = effect(() => {
      changes.value;
      waiting ??= setTimeout(() => {
        waiting = undefined;
        render((n) => n + 1);
      }, ms);
    });
    return () => {
      end();
      clearTimeout(waiting);
    };
  }, [changes, ms]);
}

/** The width of an element in pixels. */
export function useWidth(box: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(innerWidth);
  useEffect(() => {
    const resized = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    resized.observe(box.current!);
    return () => resized.disconnect();
  }, []);
  return width;
}

/** Whether the component is still shown, for answers that arrive late. */
export function useIsShown(): () => boolean {
  const isShown = useRef(true);
  useEffect(() => () => { isShown.current = false; }, []);
  return () => isShown.current;
}
