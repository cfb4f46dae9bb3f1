import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { asProblem, type ProblemError } from "../api/problem";
import { createSession, readText, score } from "../api/sessions";
import type { Incident, Session, Verdict } from "../api/types";
import { ChooseSession, Switch, useSessions } from "../incidents/choose";
import { Row } from "../incidents/row";
import { shownOf, threshold, thresholds } from "../incidents/shown";
import { Problem } from "../shell/problem";
import { Incidents } from "../state/incidents";
import { go, route } from "../state/route";
import { Dialog } from "../ui/dialog";
import { useIsShown } from "../ui/hooks";
import { firstOf, grouped, titleOf } from "../ui/words";

const searchedBytes = 16 << 20;
const pieceBytes = 1 << 20;
const secondsKept = 7 * 24 * 3600;

/** The live incidents of a session. */
export function IncidentsView() {
  const { session } = route.value;
  return session ? <Watch key={session} id={session} /> : <ChooseSession />;
}

function Watch({ id }: { id: string }) {
  const of = useMemo(() => new Incidents(id), [id]);
  useEffect(() => () => of.end(), [of]);
  const { sessions } = useSessions();
  const session = of.session.value;
  const shown = shownOf(of.list.value, threshold.value);
  const count = shown.open.length;
  useEffect(() => {
    document.title = `${count ? `(${count}) ` : ""}Incidents · lmserve`;
    return () => { document.title = "lmserve"; };
  }, [count]);
  return (
    <div class="incidents">
      <header class="head">
        <h1>Incidents</h1>
        {session && <Switch at={session} sessions={sessions ?? []} />}
        <State of={of} />
        <span class="space" />
        <label class="labelled">Lines stranger than
          <select value={threshold.value}
            onChange={(event) => (threshold.value = Number(event.currentTarget.value))}>
            {thresholds.map((n) => <option key={n} value={n}>1 in {grouped(n)}</option>)}
          </select>
        </label>
      </header>
      {of.problem.value && <Problem error={of.problem.value} />}
      {session && !of.hasLines.value
        ? <NoLines of={session} />
        : <List of={of} />}
    </div>
  );
}

function State({ of }: { of: Incidents }) {
  const state = of.state.value;
  const lines = of.lines.value;
  const words = {
    opening: "opening…", live: "live", lost: "connection lost; retrying", over: "stopped",
  }[state];
  return (
    <span class={`state ${state}`}>
      <i aria-hidden="true" /><span role="status">{words}</span>
      {lines > 0 && <span class="note">line {grouped(lines)}</span>}
    </span>
  );
}

function List({ of }: { of: Incidents }) {
  const [chosen, setChosen] = useState(0);
  const [opened, setOpened] = useState(0);
  const [moves, setMoves] = useState(0); // counts moves by keys, which the focus follows
  const [judged, setJudged] = useState(0); // the last one, for undo
  const [unfolded, setUnfolded] = useState(false);
  const [asksKeys, setAsksKeys] = useState(false);
  const shown = shownOf(of.list.value, threshold.value);
  const rows = [...shown.open, ...shown.earlier, ...(unfolded ? shown.falseAlarms : [])];
  const at = rows.findIndex(({ number }) => number === chosen);
  // Keys act only on a selected incident, so that a new one is not judged by mistake.
  const current: Incident | undefined = rows[at];

  const choose = (row: Incident | undefined): void => {
    setChosen(row?.number ?? 0);
    setMoves(moves + 1);
  };
  const judge = (incident: Incident, verdict: Verdict | null): void => {
    if (verdict === "false_alarm" && !unfolded) {
      setOpened(0);
      choose(rows[at + 1] ?? rows[at - 1]);
    }
    setJudged(verdict ? incident.number : 0);
    void of.judge(incident.number, verdict);
  };
  const takeBack = (): void => {
    const last = of.list.value.find(({ number }) => number === judged);
    const target = current?.verdict ? current : last;
    if (!target?.verdict) return;
    judge(target, null);
    choose(target);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.target as HTMLElement).closest("input, select, textarea, dialog")) return;
    const act = {
      j: () => choose(rows[Math.min(at + 1, rows.length - 1)]),
      k: () => choose(rows[Math.max(at - 1, 0)]),
      f: () => current && judge(current, "false_alarm"),
      m: () => current && judge(current, "matters"),
      r: () => current && go("read", of.session.value?.id, current.offset),
      u: takeBack,
      "?": () => setAsksKeys(true),
      Escape: () => setOpened(0),
    }[{ ArrowDown: "j", ArrowUp: "k" }[event.key] ?? event.key];
    const isEnter = event.key === "Enter" && event.target === document.body;
    if (!act && !isEnter) return;
    event.preventDefault();
    if (isEnter && current) setOpened(opened === current.number ? 0 : current.number);
    act?.();
  };
  useLayoutEffect(() => { // before the next key
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });

  const list = (some: Incident[], name: string) => some.length > 0 && (
    <ul aria-label={name}>
      {some.map((i) => (
        <Row key={i.number} of={i} session={of.session.value?.id ?? of.id}
          isChosen={i === current} isOpen={i.number === opened}
          canTab={i === (current ?? rows[0])} moves={i === current ? moves : 0}
          onChoose={() => setChosen(i.number)}
          onToggle={() => {
            setChosen(i.number);
            setOpened(opened === i.number ? 0 : i.number);
          }}
          onJudge={(verdict) => judge(i, verdict)} />
      ))}
    </ul>
  );
  const isReady = of.state.value !== "opening";
  return (
    <>
      {shown.open.length > 0 && <h2>Open <span>{shown.open.length}</span></h2>}
      {list(shown.open, "Open incidents")}
      {isReady && shown.open.length === 0 && <p class="quiet-now">All quiet.</p>}
      {shown.earlier.length > 0 && <h2>Earlier <span>{shown.earlier.length}</span></h2>}
      {list(shown.earlier, "Earlier incidents")}
      {shown.falseAlarms.length > 0 && (
        <details class="folded" open={unfolded}
          onToggle={(event) => setUnfolded(event.currentTarget.open)}>
          <summary>False alarms <span>{shown.falseAlarms.length}</span></summary>
          {unfolded && list(shown.falseAlarms, "False alarms")}
        </details>
      )}
      <footer class="note">
        {shown.hidden > 0 && <span>{grouped(shown.hidden)} less strange not shown</span>}
        <span class="keys-line">
          <kbd>j</kbd> <kbd>k</kbd> move, <kbd>Enter</kbd> opens, <kbd>f</kbd> false alarm,
          {" "}<kbd>m</kbd> matters, <kbd>u</kbd> undo
        </span>
        <button type="button" class="quiet" onClick={() => setAsksKeys(true)}>
          All keys <kbd>?</kbd>
        </button>
      </footer>
      <p class="hidden" aria-live="polite">
        {shown.open[0] && `Open: ${shown.open[0].samples[0] ?? ""}`}
      </p>
      {asksKeys && <Keys onClose={() => setAsksKeys(false)} />}
    </>
  );
}

function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        <dt><kbd>j</kbd> <kbd>↓</kbd></dt><dd>next incident</dd>
        <dt><kbd>k</kbd> <kbd>↑</kbd></dt><dd>previous incident</dd>
        <dt><kbd>Enter</kbd></dt><dd>show or hide samples, reason and evidence</dd>
        <dt><kbd>f</kbd></dt><dd>false alarm: hide this and similar incidents</dd>
        <dt><kbd>m</kbd></dt><dd>matters: always show this and similar incidents</dd>
        <dt><kbd>u</kbd></dt><dd>withdraw the verdict</dd>
        <dt><kbd>r</kbd></dt><dd>show the first line in Read</dd>
        <dt><kbd>Esc</kbd></dt><dd>close</dd>
      </dl>
    </Dialog>
  );
}

/** Offers to find the incidents of a text whose session was fed without lines. */
function NoLines({ of }: { of: Session }) {
  const [done, setDone] = useState(-1); // bytes; -1 before the start
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const isShown = useIsShown();
  const find = async (): Promise<void> => {
    setDone(0);
    setProblem(null);
    try {
      const kept = await readText(of.id, of.offset, 1); // finds where the text begins
      const made = await createSession({
        settings: { method: "counts", companion: false },
        labels: { title: firstOf(`${titleOf(of)}, its lines`, 256) },
        ttl_seconds: secondsKept,
      });
      let at = Math.max(kept.from, of.offset - searchedBytes);
      while (at < of.offset) {
        const { bytes } = await readText(of.id, at, Math.min(pieceBytes, of.offset - at));
        if (bytes.length === 0) break;
        const text = new Uint8Array(bytes);
        for await (const _ of score(made.id, text, { unit: "line", text: false }));
        at += bytes.length;
        setDone(at);
      }
      if (isShown()) go("incidents", made.id);
    } catch (error) {
      setDone(-1);
      setProblem(asProblem(error));
    }
  };
  return (
    <div class="empty">
      <h2>This session has no lines</h2>
      <p>This session scores chunks, not lines. A second session can search its text for incidents.</p>
      {problem && <Problem error={problem} />}
      <button type="button" class="primary" disabled={done >= 0} onClick={() => void find()}>
        {done >= 0 ? "Searching…" : "Find incidents in this text"}
      </button>
    </div>
  );
}
