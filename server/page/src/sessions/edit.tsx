import { useState } from "preact/hooks";
import { patchSession } from "../api/manage";
import { asProblem, type ProblemError } from "../api/problem";
import type { Session } from "../api/types";
import { Problem } from "../shell/problem";
import { namePattern, nameWords } from "../ui/words";

const lives: [number, string][] = [
  [0, "never"], [3600, "after an hour"], [86400, "after a day"], [7 * 86400, "after a week"],
  [30 * 86400, "after 30 days"], [365 * 86400, "after a year"],
];

interface Props {
  of: Session;
  onChanged: (session: Session) => void;
}

/** Edits a session's name, labels and lifetime. */
export function Edit({ of, onChanged }: Props) {
  const [before, setBefore] = useState(of); // only the user's own changes are sent
  const [name, setName] = useState(of.name ?? "");
  const [labels, setLabels] = useState(Object.entries(of.labels ?? {}));
  const [ttl, setTTL] = useState(of.ttl_seconds);
  const [state, setState] = useState<"" | "busy" | "saved">("");
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const put = (i: number, label: [string, string]): void => {
    setState("");
    setLabels(labels.map((old, at) => (at === i ? label : old)));
  };
  const save = async (): Promise<void> => {
    setState("busy");
    setProblem(null);
    const wanted = Object.fromEntries(labels.filter(([label]) => label));
    const had = before.labels ?? {};
    const changed = Object.entries(wanted).filter(([label, value]) => had[label] !== value);
    const gone = Object.keys(had).filter((label) => !(label in wanted));
    try {
      const session = await patchSession(of.id, {
        ...(name !== (before.name ?? "") && { name: name || null }),
        labels: Object.fromEntries([...gone.map((label) => [label, null]), ...changed]),
        ...(ttl !== before.ttl_seconds && { ttl_seconds: ttl }),
      });
      setBefore({ ...session, labels: wanted });
      onChanged(session);
      setState("saved");
    } catch (error) {
      setState("");
      setProblem(asProblem(error));
    }
  };
  return (
    <form class="edit" onSubmit={(event) => {
      event.preventDefault();
      void save();
    }}>
      <label>Name <span class="note">(optional)</span>
        <input value={name} pattern={namePattern} title={nameWords} onInput={(event) => {
          setState("");
          setName(event.currentTarget.value);
        }} />
      </label>
      <fieldset>
        <legend>Labels</legend>
        {labels.map(([label, value], i) => (
          <div class="label" key={i}>
            <input aria-label={`Label ${i + 1}, its name`} value={label} maxLength={64}
              placeholder="name" onInput={(event) => put(i, [event.currentTarget.value, value])} />
            <input aria-label={`Label ${i + 1}, its value`} value={value} maxLength={256}
              placeholder="value" onInput={(event) => put(i, [label, event.currentTarget.value])} />
            <button type="button" class="quiet" aria-label={`Remove label ${label || i + 1}`}
              onClick={() => {
                setState("");
                setLabels(labels.filter((_, at) => at !== i));
              }}>×</button>
          </div>
        ))}
        <button type="button" disabled={labels.length >= 16}
          onClick={() => setLabels([...labels, ["", ""]])}>Add a label</button>
      </fieldset>
      <div class="in-a-row">
        <label>Expires if unused
          <select value={ttl} onChange={(event) => {
            setState("");
            setTTL(Number(event.currentTarget.value));
          }}>
            {!lives.some(([seconds]) => seconds === of.ttl_seconds) &&
              <option value={of.ttl_seconds}>after {of.ttl_seconds} seconds</option>}
            {lives.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>{words}</option>
            ))}
          </select>
        </label>
        <button type="submit" disabled={state === "busy"}>Save</button>
        <span role="status" class="note">{state === "saved" ? "Saved." : ""}</span>
      </div>
      {problem && <Problem error={problem} />}
    </form>
  );
}
