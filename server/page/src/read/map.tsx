import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Reading } from "../state/reading";
import { HeatMap, type Listener } from "./heatmap";
import type { Mode } from "./scale";

interface Props {
  reading: Reading;
  mode: Mode;
  follow: boolean;
  selected: number; // a place selected elsewhere; -1 for none
  listener: Listener;
}

/** The map of surprise in the page. */
export function TextMap({ reading, mode, follow, selected, listener }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const map = useRef<HeatMap>(null);
  useEffect(() => {
    const made = (map.current = new HeatMap(host.current!, reading, listener));
    const stop = effect(() => {
      reading.changed.value;
      reading.ratings.changed.value;
      made.update();
    });
    return () => {
      stop();
      made.destroy();
    };
  }, [reading]);
  useEffect(() => map.current!.show(mode), [reading, mode]);
  useEffect(() => map.current!.follow(follow), [reading, follow]);
  useEffect(() => {
    if (selected >= 0) map.current!.select(selected);
  }, [reading, selected]);
  return (
    <div ref={host} class="map mono" tabIndex={0} role="application" aria-roledescription="heat map"
      aria-label="The text, colored by surprise. Arrow keys move, n and p jump between surprises."
    />
  );
}
