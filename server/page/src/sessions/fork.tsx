import { useState } from "preact/hooks";
import { asProblem, type ProblemError } from "../api/problem";
import { forkSession } from "../api/sessions";
import type { Session } from "../api/types";
import { Problem } from "../shell/problem";
import type { Reading } from "../state/reading";
import { grouped, namePattern, nameWords } from "../ui/words";
import { Travel } from "./travel";

interface Props {
  on: Reading;
  onForked: (fork: Session) => void;
}

/** Forks a session at the end of its text, or earlier. */
export function Fork({ on, onForked }: Props) {
  const end = on.session.value.offset;
  const [at, setAt] = useState(end);
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const fork = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      const labels = { title: `Fork at byte ${grouped(at)}` };
      onForked(await forkSession(on.session.value.id, {
        at_offset: at, ...(name ? { name } : { labels }),
      }));
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="fork" onSubmit={(event) => {
      event.preventDefault();
      void fork();
    }}>
      <p class="note">
        A fork is a new session with this session's text up to a place, and with all that the model
        learned from it. Then both are independent. Click in the text to choose an earlier place.
      </p>
      <Travel on={on} at={at} onAt={setAt} />
      {problem && <Problem error={problem} />}
      <div class="in-a-row">
        <label>Name <span class="note">(optional)</span>
          <input value={name} pattern={namePattern} placeholder="what-if"
            title={nameWords}
            onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Forking…" : at === end ? "Fork at the end" : `Fork at byte ${grouped(at)}`}
        </button>
      </div>
    </form>
  );
}
