import { useEffect, useRef, useState } from "preact/hooks";
import { exportSession } from "../api/manage";
import { asProblem, type ProblemError } from "../api/problem";
import { deleteSession } from "../api/sessions";
import type { Session } from "../api/types";
import { Problem } from "../shell/problem";
import type { Reading } from "../state/reading";
import { go, href, route, type View } from "../state/route";
import { Dialog } from "../ui/dialog";
import { useIsShown } from "../ui/hooks";
import { bitsText, grouped, perByte, shortId, sizeText, titleOf } from "../ui/words";
import { Compare } from "./compare";
import { Edit } from "./edit";
import { Fork } from "./fork";
import type { SessionList } from "./list";
import { Shadows } from "./shadows";

interface Props {
  of: Session;
  on: Reading | null; // once it is open
  list: SessionList;
}

const ways: [View, string][] = [
  ["read", "Read"], ["incidents", "Incidents"], ["learn", "Learn"],
  ["write", "Write"],
];

/** Everything to know about a session and to do with it. */
export function Details({ of, on, list }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  // A keyboard user need not go through the rest of the list to get here.
  useEffect(() => heading.current!.focus(), []);
  const isShown = useIsShown();
  const [asks, setAsks] = useState(false);
  const [hadShadows] = useState(!!of.shadows); // at opening
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const trying = async (task: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setProblem(null);
    await task().catch((error) => setProblem(asProblem(error)));
    setBusy(false);
  };
  const show = (session: Session): void => {
    list.put(session);
    if (isShown()) go("sessions", session.id);
  };
  const changed = (session: Session): void => {
    const { name, labels, ttl_seconds } = session;
    if (on) on.session.value = { ...on.session.value, name, labels, ttl_seconds };
    list.put(session);
    // The address may contain the old name, also after the user has opened another view.
    const { view, session: named } = route.value;
    if (isShown() || named === of.name) go(view, session.id);
  };
  const others = list.all.value.filter(({ id, error }) => id !== of.id && !error);
  return (
    <article class="details" aria-label={`Session ${titleOf(of)}`}>
      <h2 ref={heading} tabIndex={-1}>{titleOf(of)}</h2>
      {of.error && <p class="warning">This session is unusable: {of.error}</p>}
      <p class="in-a-row">
        {!of.error && ways.map(([view, name]) => (
          <a key={view} class="button" href={href(view, of.id)}>{name}</a>
        ))}
        <button type="button" disabled={busy} onClick={() => void trying(() => save(of.id))}>
          {busy ? "Working…" : "Export"}
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => setAsks(true)}>
          Delete…
        </button>
      </p>
      {problem && <Problem error={problem} />}
      <Facts of={of} />
      {on && !of.error && (
        <>
          <details><summary>Fork at any byte</summary>
            <Fork on={on} onForked={show} /></details>
          <details><summary>Compare with another session</summary>
            <Compare of={of} others={others} /></details>
          {!of.shadow_of && (
            <details open={hadShadows}><summary>Shadow</summary>
              <Shadows of={of} onChanged={(session) => list.put(session)} /></details>
          )}
        </>
      )}
      <details><summary>Name, labels and expiry</summary>
        <Edit of={of} onChanged={changed} /></details>
      {asks && (
        <Dialog title={`Delete ${titleOf(of)}?`} onClose={() => setAsks(false)}>
          <p>
            The deletion overwrites {sizeText(of.offset)} of text on the disk, and everything
            learned from the text. Only an export can restore the session.
          </p>
          <div class="in-a-row">
            <button type="button" class="danger" onClick={() => {
              setAsks(false);
              void trying(async () => {
                await deleteSession(of.id);
                list.remove(of.id);
                if (isShown()) go("sessions", "");
              });
            }}>Delete</button>
            <button type="button" autofocus onClick={() => setAsks(false)}>Cancel</button>
          </div>
        </Dialog>
      )}
    </article>
  );
}

/** Fetches a session's file and lets the browser save it. */
async function save(id: string): Promise<void> {
  const { file, name } = await exportSession(id);
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function Facts({ of }: { of: Session }) {
  const { settings, parent, shadow_of: shadow } = of;
  const { adapted, fixed } = perByte(of.totals);
  const facts: [string, string | undefined][] = [
    ["Id", of.id],
    ["Text", `${sizeText(of.offset)} (${grouped(of.offset)} bytes)`],
    ["Bits per byte", bitsText(adapted)],
    ["Static model", bitsText(fixed)],
    ["Updates", grouped(of.step)],
    ["In memory", of.memory_bytes ? sizeText(of.memory_bytes) : "no, only on disk"],
    ["On disk", sizeText(of.disk_bytes)],
    ["Model", of.model],
    ["Method", settings && `${settings.method}, chunks of ${settings.chunk}${
      settings.companion ? ", with companion" : ""}`],
    ["Seed", String(of.seed)],
    ["Created", of.created_at && new Date(of.created_at).toLocaleString()],
    ["Last used", of.last_used_at && new Date(of.last_used_at).toLocaleString()],
    ["Shadow of", shadow && (shadow.name ?? shortId(shadow.id))],
    ["Fork of", parent && `${shortId(parent.id)} at byte ${grouped(parent.offset)}`],
  ];
  return (
    <dl class="facts">
      {facts.filter(([, value]) => value).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}
