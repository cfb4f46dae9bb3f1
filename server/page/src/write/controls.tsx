import type { Sampling } from "./suggestions";

/** The actions on the sheet. */
export type Act =
  | "accept" | "discard" | "suggest" | "down" | "up" | "take" | "commit" | "undo"
  | "continue" | "next" | "previous" | "adapted" | "static";

interface Props {
  sampling: Sampling;
  onSampling: (sampling: Sampling) => void;
  whileTyping: boolean;
  onWhileTyping: (on: boolean) => void;
  sentences: boolean; // each sentence is learnt
  onSentences: (on: boolean) => void;
  learnt: string; // the text learnt last, while it can be undone
  act: Record<Act, () => void>;
  any: boolean; // the models have offered texts
  offered: boolean; // a text is offered after the draft
  draft: boolean; // there is text that is not the session's
  busy: boolean;
  attempt: number;
}

/** Controls for suggestions and their sampling. */
export function Controls(props: Props) {
  const { sampling, act, any, busy } = props;
  const set = (more: Partial<Sampling>): void => props.onSampling({ ...sampling, ...more });
  return (
    <div class="controls">
      <div class="acts">
        <button type="button" class="primary" disabled={busy} onClick={act.suggest}>Suggest</button>
        <button type="button" disabled={busy} onClick={act.continue}>Continue</button>
        <button type="button" disabled={!any} onClick={act.next}>
          Next{any && ` (${props.attempt})`}
        </button>
        <button type="button" disabled={!any && !props.offered} onClick={act.discard}>
          Discard
        </button>
        <button type="button" disabled={!props.draft || busy} onClick={act.commit}>
          {busy ? "Learning…" : "Learn what I wrote"}
        </button>
        {props.learnt && (
          <button type="button" class="quiet" disabled={busy} onClick={act.undo}
            title={`Undo: ${props.learnt}`}>Undo learning</button>
        )}
      </div>
      <div class="sampling">
        <label>
          Temperature <output>{sampling.temperature.toFixed(1)}</output>
          <input type="range" min={0} max={1.5} step={0.1} value={sampling.temperature}
            onInput={(event) => set({ temperature: event.currentTarget.valueAsNumber })} />
        </label>
        <label>
          Length <output>{sampling.tokens}</output>
          <input type="range" min={8} max={512} step={8} value={sampling.tokens}
            onInput={(event) => set({ tokens: event.currentTarget.valueAsNumber })} />
        </label>
        <label>
          <input type="checkbox" checked={sampling.atLineEnd}
            onChange={(event) => set({ atLineEnd: event.currentTarget.checked })} />
          Stop at the end of the line
        </label>
        <label>
          <input type="checkbox" checked={props.whileTyping}
            onChange={(event) => props.onWhileTyping(event.currentTarget.checked)} />
          Suggest while I type
        </label>
        <label>
          <input type="checkbox" checked={props.sentences}
            onChange={(event) => props.onSentences(event.currentTarget.checked)} />
          Learn each sentence
        </label>
      </div>
    </div>
  );
}
