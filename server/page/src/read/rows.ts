import { Growing } from "../state/growing";
import { cellAt, tabColumns } from "../ui/cells";

/** How far back from its end a row may be cut between two words. */
const wordColumns = 24;

/** Where the rows of a text begin that is so many columns wide. It grows with the text. */
export class Rows {
  #starts = new Growing((n) => new Float64Array(n));
  #done = 0; // the bytes whose rows are known for good

  constructor(readonly columns: number) {
    this.#starts.push([0]);
  }

  get count(): number {
    return this.#starts.length;
  }

  /** The place at which a row begins; behind the last row, the end of the text. */
  start(row: number): number {
    return row < this.#starts.length ? this.#starts.at(row) : this.#done;
  }

  /** The row of a place. */
  of(place: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts.at(middle) <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Takes note of what the text has more by now. */
  extend(text: Uint8Array): void {
    if (text.length === this.#done) return;
    // The last row may change: it goes on.
    let place = this.#starts.at(this.#starts.length - 1);
    let column = 0;
    let space = -1; // where the row may be cut: behind its last space
    let spaceColumn = 0;
    while (place < text.length) {
      const cell = cellAt(text, place);
      const width = cell.kind === "tab" ? tabColumns - (column % tabColumns) : cell.width;
      if (column + width > this.columns && cell.kind !== "newline") {
        const atSpace = space >= 0 && column - spaceColumn < wordColumns;
        this.#starts.push([atSpace ? space : place]);
        column = atSpace ? column - spaceColumn : 0;
        space = -1;
        continue;
      }
      place += cell.size;
      column += width;
      if (cell.kind === "newline") {
        this.#starts.push([place]);
        column = 0;
        space = -1;
      } else if (cell.shown === " " || cell.kind === "tab") {
        space = place;
        spaceColumn = column;
      }
    }
    this.#done = text.length;
  }
}
