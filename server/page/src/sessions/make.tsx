import { useEffect, useState } from "preact/hooks";
import { importSession, putSession } from "../api/manage";
import { asProblem, type ProblemError } from "../api/problem";
import { createSession } from "../api/sessions";
import { Problem } from "../shell/problem";
import { knowModels, models } from "../state/feed";
import { go } from "../state/route";
import { Dialog } from "../ui/dialog";
import { useIsShown } from "../ui/hooks";
import { namePattern, nameWords } from "../ui/words";
import type { SessionList } from "./list";
import { ChooseSettings, settingsOf, type Adapting } from "./settings";

interface Props {
  list: SessionList;
  onClose: () => void;
}

/** Creates a session, new or from an exported file. */
export function Make({ list, onClose }: Props) {
  const isShown = useIsShown();
  const [name, setName] = useState("");
  const [adapting, setAdapting] = useState<Adapting | null>(null);
  const [file, setFile] = useState<File | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  useEffect(() => {
    knowModels().then(() => {
      const [{ id, defaults }] = models.value;
      setAdapting({ model: id, method: defaults.method, values: { baseline: true, companion: true } });
    }, (error) => setProblem(asProblem(error)));
  }, []);
  const make = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      const request = adapting ? { model: adapting.model, settings: settingsOf(adapting) } : {};
      const session = file ? await importSession(file, name)
        : name ? await putSession(name, request)
        : await createSession(request);
      list.put(session);
      if (!isShown()) return;
      onClose();
      go("sessions", session.id);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="New session" onClose={onClose}>
      <form onSubmit={(event) => {
        event.preventDefault();
        void make();
      }}>
        <label>Name <span class="note">(optional)</span>
          <input value={name} pattern={namePattern} placeholder="web-1"
            title={nameWords}
            onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label>From an exported .tar file <span class="note">(optional)</span>
          <input type="file" accept=".tar"
            onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} />
        </label>
        {!file && adapting && <ChooseSettings of={adapting} onChange={setAdapting} />}
        {problem && <Problem error={problem} />}
        <div class="in-a-row">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Creating…" : file ? "Import" : "Create"}
          </button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}
