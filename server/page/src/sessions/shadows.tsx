import { useEffect, useState } from "preact/hooks";
import { patchSession } from "../api/manage";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { createSession, getSession } from "../api/sessions";
import type { Session, Shadow } from "../api/types";
import { Problem } from "../shell/problem";
import { href } from "../state/route";
import { bitsText, grouped, shadowName, shortId, sizeText } from "../ui/words";
import { ChooseSettings, settingsOf, type Adapting } from "./settings";

/** The interval for checking the progress of shadows. */
const askMs = 2000;

interface Props {
  of: Session;
  onChanged: (session: Session) => void;
}

/** Shows a session's shadows, creates them, and turns them into ordinary sessions. */
export function Shadows({ of, onChanged }: Props) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const shadows = useShadows(of, onChanged);
  const change = async (task: () => Promise<Session>): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      onChanged(await task());
      await shadows.ask();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="shadows">
      <p class="note">
        A shadow reads the same text with another model or other settings, to compare the
        predictions. It never delays the session.
      </p>
      {!!of.shadows?.length && (
        <Table of={of} shadows={shadows.all} busy={busy}
          onDetach={(id) => void change(() => patchSession(id, { shadow_of: null }))} />
      )}
      <New of={of} busy={busy} onMake={(adapting) => void change(() => createSession({
        shadow_of: of.id, model: adapting.model, settings: settingsOf(adapting),
      }))} />
      {(problem ?? shadows.problem) && <Problem error={(problem ?? shadows.problem)!} />}
    </div>
  );
}

/**
 * The current shadows of a session, both as the session reports them and as sessions. They are
 * fetched repeatedly while there are any.
 */
function useShadows(of: Session, onChanged: (session: Session) => void) {
  const [all, setAll] = useState<Session[]>([]);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const ask = async (signal?: AbortSignal): Promise<void> => {
    try {
      const session = await getSession(of.id, signal);
      const shadows = await Promise.all(
        (session.shadows ?? []).map(({ id }) => getSession(id, signal)));
      setAll(shadows);
      setProblem(null);
      for (const changed of [session, ...shadows]) onChanged(changed);
    } catch (error) {
      if (!isAbort(error)) setProblem(asProblem(error));
    }
  };
  const any = (of.shadows ?? []).length > 0;
  useEffect(() => {
    const ended = new AbortController();
    void ask(ended.signal);
    const timer = any ? setInterval(() => void ask(ended.signal), askMs) : undefined;
    return () => {
      clearInterval(timer);
      ended.abort();
    };
  }, [of.id, any]);
  return { all, problem, ask };
}

interface TableProps {
  of: Session;
  shadows: Session[];
  busy: boolean;
  onDetach: (id: string) => void;
}

function Table({ of, shadows, busy, onDetach }: TableProps) {
  const nameOf = ({ id, name }: Shadow): string => {
    const session = shadows.find((one) => one.id === id);
    return session ? shadowName(session, of) : name ?? shortId(id);
  };
  return (
    <table class="numbers">
      <caption>Bits per byte of the same text</caption>
      <thead>
        <tr><th scope="col">Name</th><th scope="col">Shadow</th><th scope="col">Session</th>
          <th scope="col">Difference</th><th /></tr>
      </thead>
      <tbody>
        {(of.shadows ?? []).map((shadow) => (
          <tr key={shadow.id}>
            <th scope="row">
              <a href={href("sessions", shadow.id)}>{nameOf(shadow)}</a>
              <small>{shadow.error ?? stateOf(shadow)}</small>
            </th>
            <td>{bitsText(shadow.compared?.shadow_bits_per_byte)}</td>
            <td>{bitsText(shadow.compared?.session_bits_per_byte)}</td>
            <td>{bitsText(shadow.compared?.difference)}</td>
            <td><button type="button" disabled={busy} onClick={() => onDetach(shadow.id)}
              aria-label={`Detach ${nameOf(shadow)}`}
              title="Turns the shadow into an ordinary session">Detach</button></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function stateOf({ compared, behind_bytes: behind }: Shadow): string {
  if (behind > 0) return `${sizeText(behind)} behind`;
  return compared ? `up to byte ${grouped(compared.offset)}` : "nothing to compare yet";
}

interface NewProps {
  of: Session;
  busy: boolean;
  onMake: (adapting: Adapting) => void;
}

function New({ of, busy, onMake }: NewProps) {
  const [adapting, setAdapting] = useState<Adapting>(
    // Keeps the companion, so that the difference shows the effect of the fast weights.
    { model: of.model ?? "", method: "static", values: { companion: true } },
  );
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      onMake(adapting);
    }}>
      <ChooseSettings of={adapting} onChange={setAdapting} />
      <div class="in-a-row">
        <button type="submit" disabled={busy}>{busy ? "Working…" : "Create a shadow"}</button>
      </div>
    </form>
  );
}
