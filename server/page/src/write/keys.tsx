import type { Act } from "./controls";

const keys: [string[], string][] = [
  [["Tab"], "accept: the text becomes the session's, which learns it"],
  [["Esc"], "discard"],
  [["Alt", "]"], "next"],
  [["Alt", "["], "the one before"],
  [["Alt", "1"], "choose the adapted model's"],
  [["Alt", "2"], "choose the static model's"],
  [["Ctrl", "Space"], "suggest"],
  [["Ctrl", "Enter"], "commit what was written"],
];

/** What a key does; undefined where it does what it always does. */
export function actOf(event: KeyboardEvent, anySuggested: boolean): Act | undefined {
  const found: Record<string, Act> = event.altKey
    ? { BracketRight: "next", BracketLeft: "previous", Digit1: "adapted", Digit2: "static" }
    : event.ctrlKey || event.metaKey
    ? { Enter: "commit", Space: "suggest" }
    : anySuggested && !event.shiftKey
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
