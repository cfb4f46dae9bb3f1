import { useState } from "preact/hooks";
import { asProblem, type ProblemError } from "../api/problem";
import type { Session } from "../api/types";
import { Problem } from "../shell/problem";
import { Choice } from "../ui/choice";
import { bitsText, grouped, signed, titleOf } from "../ui/words";
import { scoredByBoth, type Compared } from "./compared";

/** The largest text for comparing two sessions. */
const textMax = 4096;

interface Props {
  of: Session;
  others: Session[];
}

/** Compares two sessions on a text that neither learns. */
export function Compare({ of, others }: Props) {
  const [other, setOther] = useState(relatedTo(of, others)?.id ?? "");
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<Compared | null>(null);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const against = others.find(({ id }) => id === other);
  if (others.length === 0) {
    return <p class="note">There is no other session to compare with. Fork this session first.</p>;
  }
  const compare = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      setResult(await scoredByBoth(of, against!, text));
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="compare" onSubmit={(event) => {
      event.preventDefault();
      void compare();
    }}>
      <p class="note">
        Both sessions score the same text as their continuation. Neither session learns the text.
      </p>
      <label>With
        <select value={other} onChange={(event) => {
          setOther(event.currentTarget.value);
          setResult(null);
        }}>
          {others.map((session) => (
            <option key={session.id} value={session.id}>{titleOf(session)}</option>
          ))}
        </select>
      </label>
      <label>Text
        <textarea rows={4} required maxLength={textMax} value={text} spellcheck={false}
          placeholder="A few lines that may follow"
          onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary" disabled={busy || !against}>
        {busy ? "Scoring…" : "Score with both"}
      </button>
      {problem && <Problem error={problem} />}
      {result && <Result of={result} />}
    </form>
  );
}

/**
 * The likeliest session to compare with: a fork, a parent or a sibling; a shadow; one with the same
 * model.
 */
function relatedTo(of: Session, others: Session[]): Session | undefined {
  return others.find((other) =>
    other.parent?.id === of.id || of.parent?.id === other.id ||
    (of.parent && of.parent.id === other.parent?.id)) ??
    others.find((other) => other.shadow_of?.id === of.id || of.shadow_of?.id === other.id) ??
    others.find((other) => other.model === of.model) ?? others[0];
}

type Shown = "first" | "second" | "difference";
/** The bits with full color. */
const fullBits = 8;
const fullDifference = 4;

function Result({ of }: { of: Compared }) {
  const [shown, setShown] = useState<Shown>("difference");
  const [at, setAt] = useState(-1);
  const { first, second } = of;
  return (
    <section class="compared" aria-label="Comparison">
      <table class="numbers">
        <caption>Cost of {grouped(of.bytes)} bytes</caption>
        <thead>
          <tr>
            <th scope="col">Session</th><th scope="col">Bits</th><th scope="col">Bits per byte</th>
          </tr>
        </thead>
        <tbody>
          {[first, second].map((side, i) => (
            <tr key={i}><th scope="row" class={i ? "second" : "first"}>{side.title}</th>
              <td>{side.total.toFixed(1)}</td><td>{bitsText(side.total / of.bytes)}</td></tr>
          ))}
          <tr><th scope="row">Difference</th><td>{signed(first.total - second.total, 1)}</td>
            <td>{bitsText((first.total - second.total) / of.bytes)}</td></tr>
        </tbody>
      </table>
      <Choice label="Color" value={shown} onChoose={setShown} options={[
        { value: "difference", name: "difference" },
        { value: "first", name: first.title }, { value: "second", name: second.title },
      ]} />
      <div class="mapped" role="slider" tabIndex={0} aria-label="The text that both sessions scored"
        aria-valuemin={0} aria-valuemax={of.characters.length - 1} aria-valuenow={Math.max(0, at)}
        aria-valuetext={said(of, at)}
        onPointerMove={(event) => setAt(Number((event.target as HTMLElement).dataset.at ?? -1))}
        onKeyDown={(event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!by) return;
          event.preventDefault();
          setAt(Math.min(of.characters.length - 1, Math.max(0, at + by)));
        }}>
        {of.characters.map((character, i) => (
          <span key={i} data-at={i} class={`${classOf(of, shown, i)}${i === at ? " at" : ""}`}
            style={{ "--share": `${Math.round(shareOf(of, shown, i) * 40)}%` }}>
            {character === "\n" ? "⏎\n" : character}
          </span>
        ))}
      </div>
      <p class="note" role="status">
        {shown === "difference" && <><b class="first">Blue</b>: more expected by {first.title}.{" "}
          <b class="second">Orange</b>: more expected by {second.title}. </>}
        {said(of, at)}
      </p>
    </section>
  );
}

function classOf({ first, second }: Compared, shown: Shown, i: number): string {
  if (shown !== "difference") return shown;
  return first.bits[i] <= second.bits[i] ? "first" : "second";
}

function shareOf({ first, second }: Compared, shown: Shown, i: number): number {
  if (shown === "difference") {
    return Math.min(1, Math.abs(first.bits[i] - second.bits[i]) / fullDifference);
  }
  return Math.min(1, (shown === "first" ? first : second).bits[i] / fullBits);
}

function said({ characters, first, second }: Compared, i: number): string {
  if (i < 0 || i >= characters.length) return "";
  const character = { "\n": "end of line", " ": "space" }[characters[i]] ?? characters[i];
  return `${character}: ${first.title} ${first.bits[i].toFixed(2)} bits, ` +
    `${second.title} ${second.bits[i].toFixed(2)} bits`;
}
