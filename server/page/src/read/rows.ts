import { Growing } from "../state/growing";
import { cellAt, tabColumns } from "../ui/cells";

/** How far from its end a row may break between words. */
const wordColumns = 24;

/** The most bytes of a character. */
const characterMost = 4;

/** The starts of the rows of a text at a given width. It grows with the text. */
export class Rows {
  #starts = new Growing((n) => new Float64Array(n));
  #done = 0; // bytes whose rows are final

  constructor(readonly columns: number) {
    this.#starts.push([0]);
  }

  get count(): number {
    return this.#starts.length;
  }

  /** The place where a row begins; after the last row, the end of the text. */
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

  /** Processes new text. Returns the first row that may have changed. */
  extend(text: Uint8Array): number {
    if (text.length === this.#done) return this.count;
    // The last row may still grow. A character at the end may have been incomplete.
    while (this.count > 1 && this.#starts.at(this.count - 1) > this.#done - characterMost) {
      this.#starts.length--;
    }
    const changed = this.count - 1;
    let place = this.#starts.at(this.#starts.length - 1);
    let column = 0;
    let space = -1; // possible break: after the last space
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
    return changed;
  }
}
