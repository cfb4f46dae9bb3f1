import { Growing } from "../state/growing";
import type { Piece } from "../state/reading";

/** Who a text cost something: the session, the static model, and the session's network alone. */
const payers = ["adapted", "fixed", "network"] as const;
type Payer = (typeof payers)[number];

/** Bits a unit; null where nothing is known. */
export type Mean = Record<Payer, number | null>;

/** Means at some places of the stream. */
export type Curve = { x: number[] } & Record<Payer, (number | null)[]>; // x: offsets in bytes

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

/** What one of them has paid, up to the end of each piece. */
class Sums {
  readonly units = doubles(); // of the pieces whose bits are known
  readonly bits = doubles();

  push(units: number, bits: number | undefined): void {
    this.units.push([last(this.units) + (bits === undefined ? 0 : units)]);
    this.bits.push([last(this.bits) + (bits ?? 0)]);
  }

  /** The mean between two numbers of pieces. */
  mean(low: number, high: number): number | null {
    const n = sumAt(this.units, high) - sumAt(this.units, low);
    return n > 1e-9 ? (sumAt(this.bits, high) - sumAt(this.bits, low)) / n : null;
  }
}

/**
 * What a stream has cost, as sums from its beginning up to the end of each piece. So the mean over
 * any window takes two searches, however long the stream is.
 */
export class Costs {
  #taken = 0; // pieces
  readonly #ends = doubles(); // offsets
  readonly #paid: Record<Payer, Sums> =
    { adapted: new Sums(), fixed: new Sums(), network: new Sums() };
  readonly #mixed = new Sums(); // the session's, of the pieces of which the network's are known

  /** `ofWords`: whether a cost is divided by words, and not by bytes. */
  constructor(private readonly ofWords: boolean) {}

  /** The offset at which the first piece begins. */
  start = 0;

  /** The offset at which the first piece begins of which the network's own bits are known. */
  networkFrom: number | null = null;

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
    if (piece.offset > this.end) this.#push(piece.offset, 0, { bits: 0 });
    if (piece.networkBits !== undefined) this.networkFrom ??= piece.offset;
    this.#push(end, this.ofWords ? piece.tokens : piece.bytes, piece);
  }

  #push(end: number, units: number, cost: Pick<Piece, "bits" | "baselineBits" | "networkBits">) {
    this.#ends.push([end]);
    this.#paid.adapted.push(units, cost.bits);
    this.#paid.fixed.push(units, cost.baselineBits);
    this.#paid.network.push(units, cost.networkBits);
    this.#mixed.push(units, cost.networkBits === undefined ? undefined : cost.bits);
  }

  /** The means of the network alone and of the session, where those of both are known. */
  get sinceNetwork(): { network: number | null; adapted: number | null } {
    const all = this.#ends.length;
    return { network: this.#paid.network.mean(0, all), adapted: this.#mixed.mean(0, all) };
  }

  /** The mean between two offsets. Within a piece its cost counts as spread evenly. */
  mean(from: number, to: number): Mean {
    const low = this.#place(from);
    const high = this.#place(to);
    const { adapted, fixed, network } = this.#paid;
    return {
      adapted: adapted.mean(low, high),
      fixed: fixed.mean(low, high),
      network: network.mean(low, high),
    };
  }

  /**
   * The means over the `window` bytes before each of so many places between two offsets. A window
   * shorter than the way from one place to the next is as long as that: no byte is left out.
   */
  curve(from: number, to: number, places: number, window: number): Curve {
    const curve: Curve = { x: [], adapted: [], fixed: [], network: [] };
    const step = (to - from) / places;
    for (let k = 1; k <= places && step > 0; k++) {
      const x = from + k * step;
      const isBehind = x - step >= this.end;
      const mean = this.mean(Math.max(this.start, x - Math.max(window, step)), x);
      curve.x.push(x);
      for (const payer of payers) curve[payer].push(isBehind ? null : mean[payer]);
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
