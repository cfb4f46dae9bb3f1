import { adviceOn, detailOf } from "../api/problem";
import { grouped } from "../ui/words";
import { sources, type Source, type Suggestion, type Suggestions } from "./suggestions";

interface Props {
  of: Suggestions;
  chosen: Source;
  hasStatic: boolean;
  onChoose: (source: Source) => void;
  onAccept: (source: Source) => void;
}

const names: Record<Source, string> = { adapted: "Adapted", static: "Static" };
const notes: Record<Source, string> = {
  adapted: "has learned this text",
  static: "without learning",
};

/** The continuations of the adapted and the static model, side by side. */
export function Cards({ of, chosen, hasStatic, onChoose, onAccept }: Props) {
  return (
    <div class="cards">
      {sources.map((source, i) => {
        const suggestion = of.of[source].value;
        const isChosen = source === chosen;
        return (
          <section key={source} class={`card ${source}${isChosen ? " chosen" : ""}`}
            aria-label={`${names[source]} model`} aria-busy={suggestion?.done === false}>
            <header>
              <h2>{names[source]}</h2>
              <span class="note">{notes[source]}</span>
              <button type="button" class="quiet" aria-pressed={isChosen}
                onClick={() => onChoose(source)}>
                {isChosen ? "chosen" : "choose"} <kbd>Alt</kbd>+<kbd>{i + 1}</kbd>
              </button>
            </header>
            {source === "static" && !hasStatic
              ? <p class="note">This session has no baseline (the static model).</p>
              : <Text of={suggestion} />}
            {suggestion?.done && suggestion.bytes.length > 0 && (
              <footer>
                <button type="button" class={isChosen ? "primary" : ""}
                  onClick={() => onAccept(source)}>Accept</button>
                <span class="note">{grouped(suggestion.bytes.length)} bytes</span>
              </footer>
            )}
          </section>
        );
      })}
    </div>
  );
}

function Text({ of }: { of: Suggestion | null }) {
  if (!of) return <p class="note">No suggestion yet.</p>;
  if (of.problem) {
    return (
      <p class="warning" role="alert">
        {of.problem.problem.title}. {detailOf(of.problem)} {adviceOn(of.problem)}
      </p>
    );
  }
  if (of.done && of.text === "") return <p class="note">No suggestion: the line ends here.</p>;
  return <p class="said" role="status">{of.text || "…"}</p>;
}
