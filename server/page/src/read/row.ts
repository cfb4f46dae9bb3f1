import { cellAt, tabColumns } from "../ui/cells";

/** The places of the letters of each text node: one for each UTF-16 unit. */
const placesOf = new WeakMap<Text, number[]>();

/** The input for drawing a row. */
export interface Drawn {
  text: Uint8Array;
  from: number;
  to: number;
  classOf: (place: number, size: number) => string;
  caret: [number, number]; // places of the token with the caret
}

/**
 * Draws a row: a span for each run of letters with the same style, and for each invalid byte.
 * Returns whether all of them have a score.
 */
export function drawRow(host: HTMLElement, row: Drawn): boolean {
  const spans: HTMLElement[] = [];
  let look = "";
  let shown = "";
  let places: number[] = [];
  let column = 0;
  let isDone = true;
  const flush = (): void => {
    if (shown === "") return;
    const span = document.createElement("span");
    const letters = document.createTextNode(shown);
    placesOf.set(letters, places);
    span.className = look;
    span.append(letters);
    spans.push(span);
    shown = "";
    places = [];
  };
  for (let place = row.from; place < row.to;) {
    const cell = cellAt(row.text, place);
    const heat = row.classOf(place, cell.size);
    if (heat === "wait") isDone = false;
    const hasCaret = place < row.caret[1] && place + cell.size > row.caret[0];
    const kind = cell.kind === "text" ? "" : ` ${cell.kind}`;
    const now = heat + kind + (hasCaret ? " caret" : "");
    if (now !== look || cell.kind === "raw") flush();
    look = now;
    const columns = cell.kind === "tab" ? tabColumns - (column % tabColumns) : cell.width;
    const letters = cell.kind === "tab" ? cell.shown.padEnd(columns) : cell.shown;
    shown += letters;
    for (let i = 0; i < letters.length; i++) places.push(place);
    column += columns;
    place += cell.size;
  }
  flush();
  host.replaceChildren(...spans);
  return isDone;
}

/** The place at a point of the window; -1 for none. */
export function placeAt(x: number, y: number): number {
  const found = caretAt(x, y);
  if (!found || !(found.node instanceof Text)) return -1;
  const places = placesOf.get(found.node);
  if (!places) return -1;
  const range = document.createRange();
  for (let i = Math.min(found.offset, places.length - 1); i >= 0 && i >= found.offset - 2; i--) {
    range.setStart(found.node, i);
    range.setEnd(found.node, i + 1);
    const box = range.getBoundingClientRect();
    if (box.left <= x && x < box.right && box.top <= y && y < box.bottom) return places[i];
  }
  return -1;
}

function caretAt(x: number, y: number): { node: Node; offset: number } | null {
  if ("caretPositionFromPoint" in document) {
    const at = document.caretPositionFromPoint(x, y);
    return at && { node: at.offsetNode, offset: at.offset };
  }
  const old = document as unknown as { caretRangeFromPoint(x: number, y: number): Range | null };
  const at = old.caretRangeFromPoint(x, y);
  return at && { node: at.startContainer, offset: at.startOffset };
}
