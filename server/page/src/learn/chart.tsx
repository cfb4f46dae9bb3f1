import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colourOf, isDark } from "../state/theme";
import { ticksText } from "../ui/words";

/** A line of the chart. */
export interface Line {
  label: string;
  colour: string; // a CSS variable, such as "--adapted"
  dash?: number[]; // lengths of dashes and gaps; omitted: solid
  values: (number | null)[];
}

export interface ChartProps {
  x: number[]; // offsets in bytes
  lines: Line[];
  from: number;
  to: number;
  moments: number[]; // offsets of updates, in order
  cursor: number | null;
  gutter: number; // pixels to the left of the plot
  onCursor: (offset: number | null) => void;
  onZoom: (from: number, to: number) => void;
}

const momentHeight = 7;

/** Curves over the offsets of a stream, with a mark at the bottom for each update. */
export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const dark = isDark();
  const kind = `${dark} ${props.gutter} ${props.lines.map((line) => line.label)}`;

  useEffect(() => {
    const target = box.current!;
    const size = () => ({ width: target.clientWidth, height: target.clientHeight });
    const u = new uPlot({ ...optionsOf(latest), ...size() }, dataOf(props), target);
    plot.current = u;
    const resized = new ResizeObserver(() => u.setSize(size()));
    resized.observe(target);
    return () => {
      resized.disconnect();
      u.destroy();
    };
  }, [kind]);

  useEffect(() => plot.current?.setData(dataOf(props)),
    [props.x, ...props.lines.map((line) => line.values)]);

  useEffect(() => {
    const u = plot.current!;
    const left = props.cursor === null ? -10 : u.valToPos(props.cursor, "x");
    u.setCursor({ left, top: left < 0 ? -10 : 1 }, false);
  }, [props.cursor, props.x]);

  return <div class="chart" ref={box} />;
}

const dataOf = (props: ChartProps): uPlot.AlignedData =>
  [props.x, ...props.lines.map((line) => line.values)] as uPlot.AlignedData;

function optionsOf(latest: { current: ChartProps }): Omit<uPlot.Options, "width" | "height"> {
  const { lines, gutter } = latest.current;
  const muted = colourOf("--muted");
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const font = `${rem * 0.75}px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: muted, font, ticks: { show: false } };
  const isCut = (tick: number): boolean => {
    const { from, to } = latest.current;
    return (tick - from) / (to - from) > 0.97;
  };
  return {
    padding: [12, 1, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 9 } },
    scales: {
      x: { time: false, range: () => [latest.current.from, latest.current.to] },
      y: { range: (_, low, high) => rangeOf(low, high) },
    },
    axes: [
      { ...axis, size: 2.1 * rem, space: 5.6 * rem, grid: { show: false },
        values: (_, ticks) => ticksText(ticks).map((text, i) => isCut(ticks[i]) ? null : text) },
      { ...axis, size: gutter, space: 2.75 * rem, grid: { stroke: colourOf("--line"), width: 1 } },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.label,
      stroke: colourOf(line.colour),
      dash: line.dash,
      width: rem / 8,
      points: { show: false },
    }))],
    hooks: {
      draw: [(u) => drawMoments(u, latest.current)],
      setCursor: [(u) => {
        const left = u.cursor.left ?? -1;
        latest.current.onCursor(left < 0 ? null : u.posToVal(left, "x"));
      }],
      setSelect: [(u) => {
        const { left, width } = u.select;
        if (width < 4) return;
        latest.current.onZoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
    },
  };
}

/** The range of the vertical axis: the values with a margin and room for the marks. */
function rangeOf(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 4];
  const air = Math.max(0.05, 0.12 * (high - low));
  return [Math.max(0, low - 2 * air), high + air];
}

/** Marks the updates at the bottom of the plot, at most one per pixel. */
function drawMoments(u: uPlot, { moments, from, to }: ChartProps): void {
  const { left, top, width, height: plotHeight } = u.bbox;
  const { ctx } = u;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.fillStyle = colourOf("--muted");
  let last = -1;
  for (const offset of moments) {
    const x = Math.round(left + ((offset - from) / (to - from)) * width);
    if (x < left || x > left + width || x < last + 2 * scale) continue;
    ctx.fillRect(x, top + plotHeight - momentHeight * scale, scale, momentHeight * scale);
    last = x;
  }
  ctx.restore();
}
