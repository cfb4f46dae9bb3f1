import { useEffect, useRef } from "preact/hooks";
import type { Update } from "../state/reading";
import { isDark } from "../state/theme";
import { rampOf } from "../ui/ramp";
import { scalesOf, stripsOf, type Group, type Shown } from "./strips";

export interface HeatProps {
  updates: Update[];
  branches: { name: string; elements: number }[];
  groups: Group[];
  shown: Shown;
  own: boolean; // each branch has its own scale
  from: number;
  to: number;
  cursor: number | null;
  branch: number; // the selected branch; -1: none
  narrow: boolean;
  onCursor: (offset: number | null, branch: number) => void;
}

/** A strip for each branch. The stream runs from left to right, and color shows its updates. */
export function Heat(props: HeatProps) {
  const { groups, from, to, cursor } = props;
  const box = useRef<HTMLDivElement>(null);
  const dark = isDark();

  useEffect(() => {
    const drawn = box.current!; // an observer may still use it after the page has removed it
    const redraw = () => draw(drawn, props, dark);
    redraw();
    const resized = new ResizeObserver(redraw);
    resized.observe(drawn);
    return () => resized.disconnect();
  }, [props.updates.at(-1)?.offset, groups, props.shown, props.own, from, to, dark]);

  const point = (event: PointerEvent, group: Group): void => {
    const place = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const row = Math.floor(((event.clientY - place.top) / place.height) * group.branches.length);
    const x = Math.min(1, Math.max(0, (event.clientX - place.left) / place.width));
    props.onCursor(from + x * (to - from), group.branches[row] ?? group.branches[0]);
  };
  const share = cursor === null ? -1 : (cursor - from) / (to - from);
  return (
    <div class="strips" ref={box} onPointerLeave={() => props.onCursor(null, -1)}>
      {groups.map((group) => (
        <div class="strip" key={group.label}>
          <span class="label" aria-hidden="true">{props.narrow ? group.short : group.label}</span>
          <div class="canvas" onPointerMove={(event) => point(event, group)}>
            <canvas style={{ height: `${group.branches.length * rowHeight(groups)}px` }} />
            {share >= 0 && share <= 1 && <i style={{ left: `${100 * share}%` }} />}
          </div>
        </div>
      ))}
    </div>
  );
}

/** The height of a branch's strip, such that all fit on a screen. */
function rowHeight(groups: Group[]): number {
  const rows = groups.reduce((sum, group) => sum + group.branches.length, 0);
  const room = Math.max(360, 0.4 * innerHeight);
  return Math.max(4, Math.min(room / 25, Math.floor(room / rows)));
}

function draw(box: HTMLElement, props: HeatProps, dark: boolean): void {
  const canvases = box.querySelectorAll("canvas");
  const columns = Math.round((canvases[0]?.clientWidth ?? 0) * devicePixelRatio);
  if (columns === 0 || props.updates.length === 0) return;
  const count = props.branches.length;
  const strips = stripsOf(props.updates, count, props.shown, props.from, props.to, columns);
  const { least, largest } = scalesOf(props.updates, props.branches, props.shown, props.own);
  const ramp = rampOf(dark);
  props.groups.forEach((group, g) => {
    const image = new ImageData(columns, group.branches.length);
    group.branches.forEach((branch, row) => {
      for (let c = 0; c < columns; c++) {
        const value = strips[branch * columns + c];
        if (isNaN(value)) continue;
        const share = (value - least[branch]) / (largest[branch] - least[branch] || 1);
        const step = Math.round(255 * Math.min(1, Math.max(0, share)));
        const at = 4 * (row * columns + c);
        image.data.set(ramp.subarray(3 * step, 3 * step + 3), at);
        image.data[at + 3] = 255;
      }
    });
    const canvas = canvases[g];
    canvas.width = columns;
    canvas.height = group.branches.length; // the style sheet stretches the rows
    canvas.getContext("2d")!.putImageData(image, 0, 0);
  });
}
