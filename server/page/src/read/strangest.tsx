import { useEffect, useState } from "preact/hooks";
import type { Reading } from "../state/reading";
import { grouped } from "../ui/words";
import { linesListed, strangestLines, type Line } from "./lines";
import { visible } from "./words";

const renewedMs = 1000;
const bytesShown = 400;

/** The lines of a text, the strangest first. */
export function Strangest({ reading, open }: { reading: Reading; open: (place: number) => void }) {
  const [lines, setLines] = useState<Line[]>(() => strangestLines(reading));
  const isOver = reading.activity.value === "idle";
  useEffect(() => {
    setLines(strangestLines(reading));
    if (isOver) return;
    const timer = setInterval(() => setLines(strangestLines(reading)), renewedMs);
    return () => clearInterval(timer);
  }, [reading, isOver]);
  if (lines.length === 0) return <p class="note">No line has been scored to its end yet.</p>;
  return (
    <div class="strangest" role="region" aria-label="Lines, the strangest first" tabIndex={0}>
      <table>
        <caption>
          The strangest first: by the bits beyond what the lines before let expect.
          {lines.length === linesListed && ` The first ${linesListed}.`}
        </caption>
        <thead>
          <tr>
            <th scope="col">Beyond</th>
            <th scope="col">Bits a byte</th>
            <th scope="col">Line</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.from}>
              <td>{line.excess >= 0 ? "+" : "−"}{grouped(Math.round(Math.abs(line.excess)))}</td>
              <td>{(line.bits / (line.to - line.from)).toFixed(2)}</td>
              <td>
                <button type="button" class="line mono" onClick={() => open(line.from)}>
                  {visible(reading.text.all.subarray(
                    line.from, Math.min(line.to - 1, line.from + bytesShown)))
                    .replaceAll("␣", " ") || "(empty)"}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
