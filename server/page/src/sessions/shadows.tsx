import { useEffect, useState } from "preact/hooks";
import { detachShadow } from "../api/manage";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { createSession, getSession } from "../api/sessions";
import type { Session, Settings, Shadow } from "../api/types";
import { grouped } from "../read/words";
import { Problem } from "../shell/problem";
import { models } from "../state/feed";
import { href } from "../state/route";
import { bitsText, shortId, sizeText } from "../ui/words";

/** How often it is asked how far the shadows have come. */
const askMs = 2000;

const methods: Settings["method"][] =
  ["sparse-meta", "dynamic-sgd", "dynamic-rms", "cache", "static"];

interface Props {
  of: Session;
  onChanged: (session: Session) => void;
}

/** Shows a session's shadows beside it, makes one, and makes sessions of their own of them. */
export function Shadows({ of, onChanged }: Props) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const shadows = useShadows(of);
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
        A shadow gets the same text on another model, or with other settings, to compare what both
        expect. It never holds the session up.
      </p>
      {shadows.all.length > 0 && (
        <Table of={shadows.all} busy={busy} onDetach={(id) => void change(() => detachShadow(id))} />
      )}
      <New of={of} busy={busy} onMake={(model, settings) => void change(
        () => createSession({ shadow_of: of.id, model, settings }))} />
      {(problem ?? shadows.problem) && <Problem error={(problem ?? shadows.problem)!} />}
    </div>
  );
}

/** The session's shadows as they are now; asked again and again where there are any. */
function useShadows(of: Session) {
  const [all, setAll] = useState(of.shadows ?? []);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const ask = async (signal?: AbortSignal): Promise<void> => {
    try {
      setAll((await getSession(of.id, signal)).shadows ?? []);
      setProblem(null);
    } catch (error) {
      if (!isAbort(error)) setProblem(asProblem(error));
    }
  };
  const any = all.length > 0;
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
  of: Shadow[];
  busy: boolean;
  onDetach: (id: string) => void;
}

function Table({ of, busy, onDetach }: TableProps) {
  return (
    <table class="numbers">
      <caption>Bits a byte of the same text</caption>
      <thead>
        <tr><th scope="col">Shadow</th><th scope="col">It</th><th scope="col">Session</th>
          <th scope="col">Difference</th><th /></tr>
      </thead>
      <tbody>
        {of.map((shadow) => (
          <tr key={shadow.id}>
            <th scope="row">
              <a href={href("sessions", shadow.id)}>{shadow.name ?? shortId(shadow.id)}</a>
              <small>{shadow.error ?? stateOf(shadow)}</small>
            </th>
            <td>{bitsText(shadow.compared?.shadow_bits_per_byte)}</td>
            <td>{bitsText(shadow.compared?.session_bits_per_byte)}</td>
            <td>{bitsText(shadow.compared?.difference)}</td>
            <td><button type="button" disabled={busy} onClick={() => onDetach(shadow.id)}
              aria-label={`Detach ${shadow.name ?? shortId(shadow.id)}`}
              title="It becomes a session of its own">Detach</button></td>
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
  onMake: (model: string, settings: Partial<Settings>) => void;
}

function New({ of, busy, onMake }: NewProps) {
  const [model, setModel] = useState(of.model ?? "");
  const [method, setMethod] = useState<Settings["method"]>("static");
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      onMake(model, { method });
    }}>
      <div class="in-a-row">
        <label>Model
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            {models.value.map(({ id, name }) => <option key={id} value={id}>{name || id}</option>)}
          </select>
        </label>
        <label>Method
          <select value={method} onChange={(event) => {
            setMethod(event.currentTarget.value as Settings["method"]);
          }}>
            {methods.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <button type="submit" disabled={busy}>{busy ? "Working…" : "Make a shadow"}</button>
      </div>
    </form>
  );
}
