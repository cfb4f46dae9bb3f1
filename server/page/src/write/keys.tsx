import type { Act } from "./controls";

const keys: [string[], string][] = [
  [["Tab"], "accept the next gray word; again, all of it"],
  [["Esc"], "dismiss"],
  [["Ctrl", "Space"], "list suggestions; arrows and Enter choose"],
  [["Ctrl", "Enter"], "learn the draft"],
  [["Ctrl", "Z"], "on an empty draft: undo the last learning"],
  [["Alt", "Enter"], "long continuation by both models"],
  [["Alt", "]"], "next continuation"],
  [["Alt", "["], "previous continuation"],
  [["Alt", "1"], "choose the adapted model"],
  [["Alt", "2"], "choose the static model"],
];

/** What is shown next to the draft. */
export interface Shown {
  offer: boolean; // gray text after the cursor
  list: boolean;
  texts: boolean; // from the two models
  draft: boolean; // a draft exists
}

/** The action of a key; undefined for its usual effect. */
export function actOf(event: KeyboardEvent, shown: Shown): Act | undefined {
  if (event.isComposing) return undefined;
  const isUndo = event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey);
  if (isUndo) return event.shiftKey || shown.draft ? undefined : "undo";
  const found: Record<string, Act> = event.altKey
    ? {
      Enter: "continue", BracketRight: "next", BracketLeft: "previous", Digit1: "adapted",
      Digit2: "static",
    }
    : event.ctrlKey || event.metaKey
    ? { Enter: "commit", Space: "suggest" }
    : event.shiftKey
    ? {}
    : shown.list
    ? { ArrowDown: "down", ArrowUp: "up", Enter: "take", Tab: "take", Escape: "discard" }
    : shown.offer || shown.texts
    ? { Tab: "accept", Escape: "discard" }
    : {};
  return found[event.code];
}

/** The keys of the sheet. */
export function Keys() {
  return (
    <dl class="keys-here">
      {keys.map(([pressed, does]) => (
        <div key={does}>
          <dt>{pressed.map((key, i) => <span key={key}>{i > 0 && "+"}<kbd>{key}</kbd></span>)}</dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  );
}
