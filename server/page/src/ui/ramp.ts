// A color ramp from little to much. It has one hue and monotonic lightness, so that everyone reads
// it alike.
const light = ["#f1efea", "#c9dcf0", "#7fb0e0", "#0b62b5", "#062b55"];
const dark = ["#1a1e25", "#123a66", "#2272bd", "#6db3f8", "#eaf4ff"];

/** The colors of the ramp at equal distances. */
export const stopsOf = (isDark: boolean): string[] => (isDark ? dark : light);

const made = new Map<boolean, Uint8Array>();

/** The ramp as 256 colors of three bytes. */
export function rampOf(isDark: boolean): Uint8Array {
  let ramp = made.get(isDark);
  if (!ramp) made.set(isDark, (ramp = between(stopsOf(isDark))));
  return ramp;
}

function between(stops: string[]): Uint8Array {
  const ramp = new Uint8Array(3 * 256);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(place));
    for (let c = 0; c < 3; c++) {
      const [low, high] = [stop, stop + 1].map((s) =>
        parseInt(stops[s].slice(1 + 2 * c, 3 + 2 * c), 16));
      ramp[3 * i + c] = Math.round(low + (place - stop) * (high - low));
    }
  }
  return ramp;
}
