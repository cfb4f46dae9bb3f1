import type { Reading } from "../state/reading";
import { cellStart, cellAt } from "../ui/cells";
import { drawRow, placeAt } from "./row";
import { Rows } from "./rows";
import { classesOf, type Mode } from "./scale";
import { moveOf } from "./moves";

/** Browsers limit an element's height to about 16 million pixels, so larger heights are scaled. */
const heightMax = 8e6;
const columnsMin = 16;
const columnsMax = 160;

/** Receives the places of the caret and the mouse in bytes; -1 for none. */
export interface Listener {
  caret(place: number): void;
  hover(place: number): void;
  followed(on: boolean): void;
}

/**
 * A text as a map of surprise. Only the visible rows are in the document; the rest is numbers. The
 * rows lie in a fixed frame, while an element as high as the whole text scrolls behind it.
 */
export class HeatMap {
  #spacer = document.createElement("div");
  #frame = document.createElement("div");
  #drawn = new Map<number, { host: HTMLElement; done: boolean }>();
  #rows = new Rows(80);
  #from = 0; // the reading's, when the rows were made
  #mode: Mode = "adaptive";
  #caret = -1;
  #top = 0; // pixels of text above the window
  #told = 0; // the last scrollTop set
  #rowHeight = 24;
  #seen = 0; // rows in the window
  #follows = false;
  #pending = 0;
  #end = new AbortController();

  constructor(
    readonly host: HTMLElement, readonly reading: Reading, private readonly listener: Listener,
  ) {
    this.#spacer.className = "spacer";
    this.#frame.className = "frame";
    host.replaceChildren(this.#frame, this.#spacer);
    const { signal } = this.#end;
    host.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    host.addEventListener("wheel", (e) => this.#wheeled(e), { signal, passive: false });
    host.addEventListener("keydown", (e) => this.#pressed(e), { signal });
    host.addEventListener("pointerdown", (e) => this.#pointed(e), { signal });
    host.addEventListener("pointermove", (e) => {
      if (e.pointerType === "mouse") listener.hover(placeAt(e.clientX, e.clientY));
    }, { signal });
    host.addEventListener("pointerleave", () => listener.hover(-1), { signal });
    const resized = new ResizeObserver(() => this.#measure());
    resized.observe(host);
    this.#from = reading.from;
    signal.addEventListener("abort", () => resized.disconnect());
    this.#measure();
  }

  destroy(): void {
    this.#end.abort();
    cancelAnimationFrame(this.#pending);
    this.host.replaceChildren();
  }

  /** Draws new parts of the reading. */
  update(): void {
    if (this.#from !== this.reading.from) this.#cut();
    this.#extend();
    this.#resize();
    if (this.#follows) this.#followScores();
    this.#draw();
  }

  show(mode: Mode): void {
    this.#mode = mode;
    this.#redraw();
  }

  /** Keeps the text being scored in view, or stops that. */
  follow(on: boolean): void {
    if (on === this.#follows) return;
    this.#follows = on;
    if (on) this.update();
    this.listener.followed(on);
  }

  /** Moves the caret to a byte and scrolls it into view, to the middle if it jumps. */
  select(place: number, jumps = true): void {
    const length = this.reading.text.length;
    if (length === 0) return;
    this.#caret = Math.max(0, Math.min(place, length - 1));
    this.#extend();
    this.#resize();
    this.follow(false);
    const row = this.#rows.of(this.#caret);
    const window = this.host.clientHeight;
    const above = row * this.#rowHeight;
    const below = above + this.#rowHeight - window;
    const isSeen = this.#top <= above && this.#top >= below;
    if (jumps && !isSeen) this.#scrollTo((above + below) / 2);
    else this.#scrollTo(Math.max(Math.min(this.#top, above), below));
    this.#redraw();
    this.listener.caret(this.#caret);
  }

  /** Makes the rows again after the reading has forgotten its first text. */
  #cut(): void {
    const first = this.#rows.start(Math.floor(this.#top / this.#rowHeight));
    const gone = this.reading.from - this.#from;
    this.#from = this.reading.from;
    this.#caret = -1;
    this.#rows = new Rows(this.#rows.columns);
    this.#extend();
    this.#resize();
    this.#scrollTo(this.#rows.of(Math.max(0, first - gone)) * this.#rowHeight);
    this.#redraw();
  }

  #extend(): void {
    const changed = this.#rows.extend(this.reading.text.all);
    for (const [row, drawn] of this.#drawn) if (row >= changed) drawn.done = false;
  }

  get #height(): number {
    return this.#rows.count * this.#rowHeight;
  }

  /** Pixels of text per pixel of the scroll bar. */
  get #scale(): number {
    const window = this.host.clientHeight;
    const most = Math.min(this.#height, heightMax) - window;
    return most > 0 ? Math.max(1, (this.#height - window) / most) : 1;
  }

  #measure(): void {
    // Keeps the caret in view, or else the first row.
    const firstRow = Math.floor(this.#top / this.#rowHeight);
    const caretRow = this.#rows.of(Math.max(0, this.#caret));
    const hasCaret = this.#caret >= 0 && caretRow >= firstRow && caretRow < firstRow + this.#seen;
    const kept = hasCaret ? this.#caret : this.#rows.start(firstRow);
    const probe = document.createElement("div");
    probe.className = "row";
    const letters = document.createElement("span");
    letters.textContent = "0".repeat(100);
    probe.append(letters);
    this.#frame.append(probe);
    const { width } = letters.getBoundingClientRect();
    this.#rowHeight = probe.getBoundingClientRect().height || this.#rowHeight;
    const padding = letters.offsetLeft * 2;
    probe.remove();
    const room = Math.floor((this.host.clientWidth - padding) / ((width || 800) / 100));
    const columns = Math.max(columnsMin, Math.min(columnsMax, room));
    if (columns !== this.#rows.columns) {
      this.#rows = new Rows(columns);
      this.#rows.extend(this.reading.text.all);
    }
    this.#seen = this.host.clientHeight / this.#rowHeight;
    const row = this.#rows.of(kept);
    const isSeen = row >= this.#top / this.#rowHeight
      && row + 1 <= this.#top / this.#rowHeight + this.#seen;
    if (!hasCaret) this.#top = row * this.#rowHeight;
    else if (!isSeen) this.#top = (row - this.#seen / 2) * this.#rowHeight;
    this.#frame.style.height = `${this.host.clientHeight}px`;
    this.#resize();
    this.#scrollTo(this.#top);
    this.#redraw();
  }

  #resize(): void {
    this.#spacer.style.height =
      `${Math.min(this.#height, heightMax) - this.host.clientHeight}px`;
  }

  #scrollTo(top: number): void {
    this.#top = Math.max(0, Math.min(top, this.#height - this.host.clientHeight));
    this.host.scrollTop = this.#top / this.#scale;
    this.#told = this.host.scrollTop;
  }

  #scrolled(): void {
    if (Math.abs(this.host.scrollTop - this.#told) >= 1) {
      if (this.host.scrollTop < this.#told) this.follow(false);
      this.#told = this.host.scrollTop;
      this.#top = this.#told * this.#scale;
    }
    this.#draw();
  }

  // The wheel scrolls unscaled even if the scroll bar is scaled.
  #wheeled(event: WheelEvent): void {
    if (event.deltaY < 0) this.follow(false);
    if (this.#scale === 1 || event.ctrlKey) return;
    event.preventDefault();
    this.#scrollTo(this.#top + event.deltaY * (event.deltaMode === 1 ? this.#rowHeight : 1));
    this.#draw();
  }

  #pointed(event: PointerEvent): void {
    const place = event.button === 0 ? placeAt(event.clientX, event.clientY) : -1;
    if (place >= 0) this.select(place);
  }

  #pressed(event: KeyboardEvent): void {
    if (event.altKey) return;
    const page = Math.max(1, Math.floor(this.host.clientHeight / this.#rowHeight) - 1);
    const place = moveOf(event, this.#caret, this.reading, this.#rows, page, this.#mode);
    if (place === null) return;
    event.preventDefault();
    this.select(place, event.key === "n" || event.key === "p");
  }

  #followScores(): void {
    const { session, from } = this.reading;
    const row = this.#rows.of(Math.max(0, session.peek().offset - from - 1));
    const target = (row + 3) * this.#rowHeight - this.host.clientHeight;
    if (target > this.#top) this.#scrollTo(target);
  }

  #redraw(): void {
    for (const row of this.#drawn.values()) row.done = false;
    this.#draw();
  }

  #draw(): void {
    this.#pending ||= requestAnimationFrame(() => {
      this.#pending = 0;
      this.#drawNow();
    });
  }

  #drawNow(): void {
    const { reading } = this;
    const text = reading.text.all;
    const classOf = classesOf(reading, this.#mode);
    const caret = this.#caretToken();
    const first = Math.floor(this.#top / this.#rowHeight);
    const last = Math.min(
      this.#rows.count - 1, Math.ceil((this.#top + this.host.clientHeight) / this.#rowHeight));
    for (const [row, { host }] of this.#drawn) {
      if (row >= first && row <= last) continue;
      host.remove();
      this.#drawn.delete(row);
    }
    for (let row = first; row <= last; row++) {
      let drawn = this.#drawn.get(row);
      if (!drawn) {
        drawn = { host: document.createElement("div"), done: false };
        drawn.host.className = "row";
        this.#frame.append(drawn.host);
        this.#drawn.set(row, drawn);
      }
      if (!drawn.done) {
        const from = this.#rows.start(row);
        const to = this.#rows.start(row + 1);
        // The last row may grow.
        drawn.done = drawRow(drawn.host, { text, from, to, classOf, caret })
          && row + 1 < this.#rows.count;
      }
      drawn.host.style.transform = `translateY(${row * this.#rowHeight - this.#top}px)`;
    }
  }

  #caretToken(): [number, number] {
    if (this.#caret < 0) return [-1, -1];
    if (this.reading.ofWords) return this.reading.tokenAt(this.#caret);
    const text = this.reading.text.all;
    const start = cellStart(text, this.#caret);
    return [start, start + cellAt(text, start).size];
  }
}
