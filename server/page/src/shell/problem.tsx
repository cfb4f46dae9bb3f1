import { adviceOn, detailOf, type ProblemError } from "../api/problem";

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
