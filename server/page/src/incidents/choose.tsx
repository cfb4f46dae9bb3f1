import { useEffect, useState } from "preact/hooks";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { lastUsed } from "../api/sessions";
import type { Session } from "../api/types";
import { Problem } from "../shell/problem";
import { go, href } from "../state/route";
import { agoText, sizeText, titleOf } from "../ui/words";

const sessionsListed = 200;

/** Returns the sessions that can be watched, most recently used first. */
export function useSessions(): { sessions: Session[] | null; problem: ProblemError | null } {
  const [sessions, setSessions] = useState<Session[] | null>(null);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  useEffect(() => {
    const leaving = new AbortController();
    lastUsed(leaving.signal).then((all) => setSessions(all.slice(0, sessionsListed)),
      (error) => { if (!isAbort(error)) setProblem(asProblem(error)); });
    return () => leaving.abort();
  }, []);
  return { sessions, problem };
}

/** Switches to the incidents of another session. */
export function Switch({ at, sessions }: { at: Session; sessions: Session[] }) {
  const all = sessions.some(({ id }) => id === at.id) ? sessions : [at, ...sessions];
  return (
    <select aria-label="Session" value={at.id}
      onChange={(event) => go("incidents", event.currentTarget.value)}>
      {all.map((s) => <option key={s.id} value={s.id}>{titleOf(s)}</option>)}
    </select>
  );
}

/** Shown if no session is chosen. */
export function ChooseSession() {
  const { sessions, problem } = useSessions();
  return (
    <div class="start">
      <h1>Incidents</h1>
      <p class="lead">
        An incident is a group of strange lines that belong together. Incidents appear here as they
        happen, with their reasons. Choose the session of a log.
      </p>
      {problem && <Problem error={problem} />}
      {sessions?.length === 0 && (
        <p class="note">
          There is no session yet. Read a log here, or start
          {" "}<code>lmserve watch --server {location.origin} FILE</code>.
        </p>
      )}
      <ul class="recent">
        {sessions?.map((s) => (
          <li key={s.id}>
            <a href={href("incidents", s.id)}>{titleOf(s)}</a>
            <span class="note">
              {sizeText(s.offset)}{s.last_used_at && `, ${agoText(s.last_used_at)}`}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
