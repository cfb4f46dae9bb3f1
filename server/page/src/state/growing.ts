type Numbers = Uint8Array | Float32Array | Float64Array;

/** A typed array that grows at its end. */
export class Growing<T extends Numbers> {
  #room: T;
  length = 0;

  constructor(private readonly make: (size: number) => T) {
    this.#room = make(1024);
  }

  /** The numbers; valid until the next change. */
  get all(): T {
    return this.#room.subarray(0, this.length) as T;
  }

  at(i: number): number {
    return this.#room[i];
  }

  /** Extends the array to a length, and fills the new part with `value`. */
  extend(length: number, value: number): void {
    if (length <= this.length) return;
    this.#grow(length);
    this.#room.fill(value, this.length, length);
    this.length = length;
  }

  push(values: ArrayLike<number>): void {
    this.#grow(this.length + values.length);
    this.#room.set(values, this.length);
    this.length += values.length;
  }

  /** Writes values from `at` on, and extends the array if needed. */
  put(at: number, values: ArrayLike<number>): void {
    this.extend(at + values.length, NaN);
    this.#room.set(values, at);
  }

  fill(from: number, to: number, value: number): void {
    this.extend(to, NaN);
    this.#room.fill(value, from, to);
  }

  /** Removes the first `count` numbers. */
  cut(count: number): void {
    this.#room.copyWithin(0, count, this.length);
    this.length = Math.max(0, this.length - count);
  }

  /** Keeps only the numbers with these indices, which increase. */
  keep(indices: number[]): void {
    indices.forEach((from, to) => (this.#room[to] = this.#room[from]));
    this.length = indices.length;
  }

  #grow(length: number): void {
    if (length <= this.#room.length) return;
    const room = this.make(Math.max(length, this.#room.length * 2));
    room.set(this.#room.subarray(0, this.length));
    this.#room = room;
  }
}

export const bytes = (): Growing<Uint8Array> => new Growing((n) => new Uint8Array(n));
export const floats = (): Growing<Float32Array> => new Growing((n) => new Float32Array(n));
