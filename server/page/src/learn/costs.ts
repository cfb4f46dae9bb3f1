import { Growing } from "../state/growing";
import type { Piece } from "../state/reading";

/** Bits a unit; null where nothing is known. */
export interface Mean {
  adapted: number | null;
  fixed: number | null; // of the static model
}

/** Means at some places of the stream. */
export interface Curve {
  x: number[]; // offsets in bytes
  adapted: (number | null)[];
  fixed: (number | null)[];
}

const doubles = (): Growing<Float64Array> => new Growing((n) => new Float64Array(n));

/** The index of the first value that is not less than x, in an array whose values never fall. */
export function firstFrom(values: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * What a stream has cost, as sums from its beginning up to the end of each piece. So the mean over
 * any window takes two searches, however long the stream is.
 */
export class Costs {
  #taken = 0; // pieces
  readonly #ends = doubles(); // offsets
  readonly #units = doubles();
  readonly #bits = doubles();
  readonly #fixedUnits = doubles(); // of the pieces of which the static model's bits are known
  readonly #fixedBits = doubles();

  /** `ofWords`: whether a cost is divided by words, and not by bytes. */
  constructor(private readonly ofWords: boolean) {}

  /** The offset at which the first piece begins. */
  start = 0;

  /** The offset behind the last piece. */
  get end(): number {
    return last(this.#ends) || this.start;
  }

  /** Takes those of a stream's pieces that have come since the last time. */
  take(pieces: Piece[]): void {
    for (; this.#taken < pieces.length; this.#taken++) this.add(pieces[this.#taken]);
  }

  /** Takes a piece that comes behind all others. What lies between was not seen. */
  add(piece: Piece): void {
    if (this.#ends.length === 0) this.start = piece.offset;
    const end = piece.offset + piece.bytes;
    if (end <= this.end) return; // nothing new, or a chunk of no bytes
    if (piece.offset > this.end) this.#push(piece.offset, 0, 0, undefined);
    const units = this.ofWords ? piece.tokens : piece.bytes;
    this.#push(end, units, piece.bits, piece.baselineBits);
  }

  #push(end: number, units: number, bits: number, fixed: number | undefined): void {
    this.#ends.push([end]);
    this.#units.push([last(this.#units) + units]);
    this.#bits.push([last(this.#bits) + bits]);
    this.#fixedUnits.push([last(this.#fixedUnits) + (fixed === undefined ? 0 : units)]);
    this.#fixedBits.push([last(this.#fixedBits) + (fixed ?? 0)]);
  }

  /** The mean between two offsets. Within a piece its cost counts as spread evenly. */
  mean(from: number, to: number): Mean {
    const low = this.#place(from);
    const high = this.#place(to);
    const ratio = (bits: Growing<Float64Array>, units: Growing<Float64Array>): number | null => {
      const n = sumAt(units, high) - sumAt(units, low);
      return n > 1e-9 ? (sumAt(bits, high) - sumAt(bits, low)) / n : null;
    };
    return {
      adapted: ratio(this.#bits, this.#units),
      fixed: ratio(this.#fixedBits, this.#fixedUnits),
    };
  }

  /**
   * The means over the `window` bytes before each of so many places between two offsets. A window
   * shorter than the way from one place to the next is as long as that: no byte is left out.
   */
  curve(from: number, to: number, places: number, window: number): Curve {
    const curve: Curve = { x: [], adapted: [], fixed: [] };
    const step = (to - from) / places;
    for (let k = 1; k <= places && step > 0; k++) {
      const x = from + k * step;
      const isBehind = x - step >= this.end;
      const mean = this.mean(Math.max(this.start, x - Math.max(window, step)), x);
      curve.x.push(x);
      curve.adapted.push(isBehind ? null : mean.adapted);
      curve.fixed.push(isBehind ? null : mean.fixed);
    }
    return curve;
  }

  /** How many pieces end before an offset, and the part of the next one that lies before it. */
  #place(offset: number): number {
    const ends = this.#ends.all;
    const i = firstFrom(ends, offset);
    if (i === ends.length) return i;
    const begin = i > 0 ? ends[i - 1] : this.start;
    return i + Math.max(0, (offset - begin) / (ends[i] - begin));
  }
}

const last = (sums: Growing<Float64Array>): number => (sums.length ? sums.at(sums.length - 1) : 0);

/** The sum over a number of pieces, the last of them in part. */
function sumAt(sums: Growing<Float64Array>, place: number): number {
  const whole = Math.floor(place);
  const before = whole > 0 ? sums.at(whole - 1) : 0;
  return place === whole ? before : before + (place - whole) * (sums.at(whole) - before);
}
