import { Problem } from "../shell/problem";
import type { RatedLine } from "../state/ratings";
import type { Reading } from "../state/reading";
import { rankText, reasonOf } from "../ui/why";
import { useRatings } from "./lines";
import { markLevel } from "./scale";
import { lettersOf } from "./words";

/** The number of lines listed. */
const linesListed = 200;
const bytesShown = 400;

/** The lines of a text in order of strangeness, as `lmserve watch` rates them. */
export function Strangest({ reading, open }: { reading: Reading; open: (place: number) => void }) {
  useRatings(reading, true);
  const problem = reading.ratings.problem.value;
  if (problem) return <Problem error={problem} again={() => reading.ratings.again()} />;
  const lines = reading.ratings.strangest(linesListed);
  if (lines.length === 0) return <p class="note">No complete line has been rated yet.</p>;
  return (
    <div class="strangest" role="region" aria-label="Lines, strangest first" tabIndex={0}>
      <table>
        <caption>
          Strangest lines first. Rank 1 in N: about one line in N is at least this strange,
          compared with the earlier lines.
          {lines.length === linesListed && ` The first ${linesListed} are listed.`}
        </caption>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Line</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.from}>
              <td>{rankText(line.rank)}</td>
              <td>
                <button type="button" class="line mono" onClick={() => open(line.span[0])}>
                  <Shown reading={reading} line={line} />
                </button>
                {line.rank > 1 && <span class="note">{reasonOf(line.why)}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The beginning of a line, with its strangest word marked. */
function Shown({ reading, line }: { reading: Reading; line: RatedLine }) {
  const end = Math.min(line.to - 1, line.from + bytesShown);
  if (end <= line.from) return <>(empty)</>;
  const shown = (from: number, to: number): string =>
    lettersOf(reading.text.all.subarray(Math.min(from, end), Math.min(to, end)));
  const [from, to] = line.rank > 1 ? line.span : [end, end];
  return (
    <>
      {shown(line.from, from)}
      {to > from && <mark class={markLevel(line.rank)}>{shown(from, to)}</mark>}
      {shown(to, end)}
    </>
  );
}
