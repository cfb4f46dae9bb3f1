import { useMemo, useState } from "preact/hooks";
import type { Reading } from "../state/reading";
import { grouped } from "../ui/words";
import { decode } from "../ui/decode";
import { useCalm } from "../ui/hooks";

interface Props {
  on: Reading;
  at: number; // offset
  onAt: (offset: number) => void;
}

const before = 1200; // bytes shown before the place
const behind = 600;

/** Selects a place in a session's text by a click, by keys, or by number. */
export function Travel({ on, at, onAt }: Props) {
  useCalm(on.changed, 200);
  const end = on.session.value.offset;
  // The shown piece of text does not move while the place is well within it.
  const [middle, setMiddle] = useState(at);
  if (Math.abs(at - middle) > behind - 50) setMiddle(at);
  const low = Math.max(on.from, middle - before);
  const high = Math.max(low, Math.min(end, middle + behind));
  const piece = on.text.all.subarray(low - on.from, high - on.from);
  const shown = useMemo(() => decode(piece), [low, piece.length]);
  const unit = unitAt(shown.starts, at - low);
  const move = (offset: number): void => onAt(Math.min(end, Math.max(0, Math.round(offset))));
  const toUnit = (u: number): void =>
    move(low + shown.starts[Math.min(shown.starts.length - 1, Math.max(0, u))]);
  const keys: Record<string, () => void> = {
    ArrowLeft: () => toUnit(unit - 1),
    ArrowRight: () => toUnit(unit + 1),
    ArrowUp: () => toUnit(shown.text.lastIndexOf("\n", unit - 2) + 1),
    ArrowDown: () => toUnit(lineAfter(shown.text, unit)),
    PageUp: () => move(at - before),
    PageDown: () => move(at + before),
    Home: () => move(on.from),
    End: () => move(end),
  };
  return (
    <div class="travel">
      <label>
        Byte <input type="number" min={0} max={end} value={at}
          onInput={(event) => {
            const { valueAsNumber } = event.currentTarget;
            if (!isNaN(valueAsNumber)) move(valueAsNumber);
          }} />
        <span class="note">of {grouped(end)}</span>
      </label>
      <input type="range" min={0} max={end} value={at} aria-label="Place in the session's text"
        aria-valuetext={`Byte ${grouped(at)}`}
        onInput={(event) => move(event.currentTarget.valueAsNumber)} />
      <div class="travelled" role="slider" tabIndex={0} aria-label="The text around the place"
        aria-valuemin={0} aria-valuemax={end} aria-valuenow={at}
        aria-valuetext={`Byte ${grouped(at)}, after ${
          shown.text.slice(Math.max(0, unit - 40), unit)}`}
        onClick={(event) => {
          const clicked = unitUnder(event);
          if (clicked >= 0) toUnit(clicked);
        }}
        onKeyDown={(event) => {
          if (!keys[event.key]) return;
          event.preventDefault();
          keys[event.key]();
        }}>
        <span>{shown.text.slice(0, unit)}</span><mark /><s>{shown.text.slice(unit)}</s>
      </div>
    </div>
  );
}

/** The first unit that begins at or after a byte. */
function unitAt(starts: number[], byte: number): number {
  const found = starts.findIndex((start) => start >= byte);
  return found < 0 ? starts.length - 1 : found;
}

function lineAfter(text: string, unit: number): number {
  const end = text.indexOf("\n", unit);
  return end < 0 ? text.length : end + 1;
}

/** The unit of text under a pointer; -1 for none. */
function unitUnder(event: MouseEvent): number {
  const box = event.currentTarget as HTMLElement;
  const place = document.caretRangeFromPoint?.(event.clientX, event.clientY);
  const found = place
    ? { node: place.startContainer, offset: place.startOffset }
    : document.caretPositionFromPoint(event.clientX, event.clientY);
  const node = found && ("node" in found ? found.node : found.offsetNode);
  if (!node || !box.contains(node) || node.nodeType !== Node.TEXT_NODE) return -1;
  const isBehind = node.parentElement?.tagName === "S";
  return found.offset + (isBehind ? box.firstElementChild!.textContent!.length : 0);
}
