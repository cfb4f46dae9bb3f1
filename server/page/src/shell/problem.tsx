import { adviceOn, detailOf, type ProblemError } from "../api/problem";
import { resume } from "../state/feed";
import type { Reading } from "../state/reading";
import { grouped } from "../ui/words";

/** A problem and advice on it. */
export function Problem({ error, again }: { error: ProblemError; again?: () => void }) {
  const advice = adviceOn(error);
  const detail = detailOf(error);
  return (
    <section class="problem" role="alert">
      <h2>{error.problem.title}</h2>
      {detail && <p>{detail}</p>}
      {advice && <p>{advice}</p>}
      {again && <button type="button" onClick={again}>Try again</button>}
    </section>
  );
}

/** The problem of a reading, and the text that the reading lacks. */
export function ReadingProblems({ of }: { of: Reading }) {
  const error = of.problem.value;
  const missed = of.missed.value;
  return (
    <>
      {error && <Problem error={error} again={() => void resume(of)} />}
      {missed && (
        <p class="note" role="status">
          The page missed bytes {grouped(missed[0])} to {grouped(missed[1] - 1)}: the server no
          longer stores this text, or the text is too long for the page. The text below begins
          after these bytes.
        </p>
      )}
    </>
  );
}
