import { Growing } from "./growing";

/** The scorers of a text: the session, the static model, and the session's network alone. */
const payers = ["adapted", "fixed", "network"] as const;
type Payer = (typeof payers)[number];

/** Bits per unit; null if unknown. */
export type Mean = Record<Payer, number | null>;

/** Means at places of the stream. */
export type Curve = { x: number[] } & Record<Payer, (number | null)[]>; // x: offsets in bytes

/** A scored piece of text, and its cost; the network's is unknown for the past. */
export interface Piece {
  offset: number;
  bytes: number;
  tokens: number;
  bits: number;
  baseline_bits?: number;
  network_bits?: number;
}

const pointsKept = 1 << 16;

const doubles = (): Growing<Float64Array> => new Growing((n) => new Float64Array(n));

/** Returns the index of the first value >= x in a nondecreasing array. */
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

/** One scorer's cost up to the end of each piece. */
class Sums {
  readonly units = doubles(); // of pieces with known bits
  readonly bits = doubles();

  push(units: number, bits: number | undefined): void {
    this.units.push([last(this.units) + (bits === undefined ? 0 : units)]);
    this.bits.push([last(this.bits) + (bits ?? 0)]);
  }

  /** The mean between two piece counts. */
  mean(low: number, high: number): number | null {
    const n = sumAt(this.units, high) - sumAt(this.units, low);
    return n > 1e-9 ? (sumAt(this.bits, high) - sumAt(this.bits, low)) / n : null;
  }
}

/**
 * The cumulative cost of a stream at the ends of its pieces. The mean over any window takes two
 * searches, however long the stream is. A long stream keeps only some of the ends.
 */
export class Costs {
  readonly #ends = doubles(); // offsets
  readonly #paid: Record<Payer, Sums> =
    { adapted: new Sums(), fixed: new Sums(), network: new Sums() };
  readonly #mixed = new Sums(); // the session's, for pieces with known network bits
  readonly #all = [this.#ends, ...[this.#mixed, ...Object.values(this.#paid)].flatMap(
    ({ units, bits }) => [units, bits])];

  /** `ofWords`: divide costs by words instead of bytes. */
  constructor(private readonly ofWords: boolean) {}

  /** The offset at which the first piece begins. */
  start = 0;

  /** The offset of the first piece with known bits of the network alone. */
  networkFrom: number | null = null;

  /** The offset after the last piece. */
  get end(): number {
    return last(this.#ends) || this.start;
  }

  /** Adds a piece after all others. A gap before it counts as unseen. */
  add(piece: Piece): void {
    if (this.#ends.length === 0) this.start = piece.offset;
    const end = piece.offset + piece.bytes;
    if (end <= this.end) return; // nothing new, or an empty chunk
    if (piece.offset > this.end) this.#push(piece.offset, 0, { bits: 0 });
    if (piece.network_bits !== undefined) this.networkFrom ??= piece.offset;
    this.#push(end, this.ofWords ? piece.tokens : piece.bytes, piece);
  }

  #push(end: number, units: number, cost: Pick<Piece, "bits" | "baseline_bits" | "network_bits">) {
    this.#ends.push([end]);
    this.#paid.adapted.push(units, cost.bits);
    this.#paid.fixed.push(units, cost.baseline_bits);
    this.#paid.network.push(units, cost.network_bits);
    this.#mixed.push(units, cost.network_bits === undefined ? undefined : cost.bits);
    if (this.#ends.length > pointsKept) this.#thin();
  }

  /** Keeps at most about half of the ends, evenly spread over the stream. */
  #thin(): void {
    const least = (this.end - this.start) / (pointsKept / 2);
    const kept: number[] = [];
    let next = this.start;
    this.#ends.all.forEach((end, i, all) => {
      if (end < next && i < all.length - 1) return;
      kept.push(i);
      next = end + least;
    });
    for (const values of this.#all) values.keep(kept);
  }

  /** The means of the network alone and of the session, over pieces where both are known. */
  get sinceNetwork(): { network: number | null; adapted: number | null } {
    const all = this.#ends.length;
    return { network: this.#paid.network.mean(0, all), adapted: this.#mixed.mean(0, all) };
  }

  /** The mean between two offsets. A piece's cost is spread evenly over it. */
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
   * The means over the `window` bytes before each of `places` places between two offsets. A window
   * is at least the distance between two places, so that no byte is left out.
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

  /**
   * The number of pieces that end before an offset, plus the fraction of the next piece before it.
   */
  #place(offset: number): number {
    const ends = this.#ends.all;
    const i = firstFrom(ends, offset);
    if (i === ends.length) return i;
    const begin = i > 0 ? ends[i - 1] : this.start;
    return i + Math.max(0, (offset - begin) / (ends[i] - begin));
  }
}

const last = (sums: Growing<Float64Array>): number => (sums.length ? sums.at(sums.length - 1) : 0);

/** The sum over a fractional number of pieces. */
function sumAt(sums: Growing<Float64Array>, place: number): number {
  const whole = Math.floor(place);
  const before = whole > 0 ? sums.at(whole - 1) : 0;
  return place === whole ? before : before + (place - whole) * (sums.at(whole) - before);
}
