import type { ComponentChildren } from "preact";
import { bitsText, grouped } from "../ui/words";
import type { Costs } from "../state/costs";

interface Props {
  of: Costs;
  from: number;
  to: number;
  cursor: number | null;
  window: number; // bytes per mean
  unit: string;
  children: ComponentChildren;
  onCursor: (offset: number | null) => void;
  onRange: (range: [number, number] | null) => void;
}

const steps = 200; // from one end of the range to the other
const zoomed = 0.5;

/** A cursor along the stream, moved by keys and announced to screen readers. */
export function Along(props: Props) {
  const { of, from, to, cursor, onCursor, onRange } = props;
  const at = cursor ?? to;
  const move = (by: number): void => onCursor(Math.min(to, Math.max(from, at + by)));
  const zoom = (factor: number): void => {
    const width = Math.min(of.end - of.start, Math.max(64, (to - from) * factor));
    const low = Math.min(of.end - width, Math.max(of.start, at - width / 2));
    onRange(width < of.end - of.start ? [low, low + width] : null);
  };
  const step = (to - from) / steps;
  const keys: Record<string, () => void> = {
    ArrowLeft: () => move(-step),
    ArrowRight: () => move(step),
    PageDown: () => move(-10 * step),
    PageUp: () => move(10 * step),
    Home: () => onCursor(from),
    End: () => onCursor(to),
    "+": () => zoom(zoomed),
    "=": () => zoom(zoomed),
    "-": () => zoom(1 / zoomed),
    "0": () => onRange(null),
    Escape: () => onCursor(null),
  };
  return (
    <div class="along" role="slider" tabIndex={0} aria-label={`Bits per ${props.unit} along the text`}
      aria-valuemin={Math.round(from)} aria-valuemax={Math.round(to)}
      aria-valuenow={Math.round(at)} aria-valuetext={said(props, at)}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        act();
      }}>
      {props.children}
    </div>
  );
}

function said({ of, window, unit }: Props, at: number): string {
  const mean = of.mean(Math.max(of.start, at - window), at);
  const network = mean.network === null ? "" : `, network alone ${bitsText(mean.network)}`;
  const fixed = mean.fixed === null ? "" : `, static ${bitsText(mean.fixed)}`;
  const byte = grouped(Math.round(at));
  return `Byte ${byte}: adapted ${bitsText(mean.adapted)}${network}${fixed} bits per ${unit}`;
}
