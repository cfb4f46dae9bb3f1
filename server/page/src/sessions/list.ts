import { computed, signal } from "@preact/signals";
import { asProblem, type ProblemError } from "../api/problem";
import { listSessions } from "../api/sessions";
import type { Session } from "../api/types";
import { titleOf } from "../ui/words";

/** The number of sessions per request, and shown at first. */
const pageSize = 200;
const shownFirst = 50;

export const orders = {
  used: "last used", made: "newest", size: "most text", name: "name",
} as const;
export type Order = keyof typeof orders;

/** The sessions fetched from the server, and which of them are shown. */
export class SessionList {
  readonly all = signal<Session[]>([]);
  readonly query = signal("");
  readonly order = signal<Order>("used");
  readonly loading = signal(false);
  readonly problem = signal<ProblemError | null>(null);
  readonly #most = signal(shownFirst);
  readonly #next = signal<string | undefined>(undefined);
  #asked = 0;

  /** All sessions that match the query, in order. */
  readonly found = computed(() => {
    const words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.all.value
      .filter((session) => words.every((word) => wordsOf(session).includes(word)))
      .sort(comparers[this.order.value]);
  });

  /** The found sessions that are shown. */
  readonly shown = computed(() => this.found.value.slice(0, this.#most.value));

  /** Whether more sessions exist, here or on the server. */
  readonly more = computed(() => this.found.value.length > this.#most.value || !!this.#next.value);

  /** The number of fetched sessions, and whether these are all. */
  readonly known = computed(() => ({ count: this.all.value.length, all: !this.#next.value }));

  /** Fetches the sessions again; the list does not change until they arrive. */
  async refresh(): Promise<void> {
    await this.#load(undefined);
  }

  /** Shows more. With a query, it fetches until something matches. */
  async showMore(): Promise<void> {
    this.#most.value += shownFirst;
    while (this.#next.value && this.found.value.length < this.#most.value) {
      if (!await this.#load(this.#next.value) || !this.query.value) return;
    }
  }

  /** Replaces a changed session, or inserts a new one. */
  put(session: Session): void {
    this.all.value = [...this.all.value.filter(({ id }) => id !== session.id), session];
  }

  remove(id: string): void {
    this.all.value = this.all.value.filter((session) => session.id !== id);
  }

  async #load(after: string | undefined): Promise<boolean> {
    const asked = ++this.#asked;
    this.loading.value = true;
    try {
      const page = await listSessions({ after, limit: pageSize });
      if (asked !== this.#asked) return false; // a newer request replaced this one
      const fetched = new Set(page.sessions.map(({ id }) => id));
      // A new or forked session may be here before its page.
      const known = after ? this.all.value.filter(({ id }) => !fetched.has(id)) : [];
      this.all.value = [...known, ...page.sessions];
      this.#next.value = page.next;
      this.problem.value = null;
      return true;
    } catch (error) {
      this.problem.value = asProblem(error);
      return false;
    } finally {
      if (asked === this.#asked) this.loading.value = false;
    }
  }
}

function wordsOf(session: Session): string {
  const labels = Object.entries(session.labels ?? {}).map(([name, value]) => `${name}:${value}`);
  return [session.id, session.name ?? "", ...labels].join(" ").toLowerCase();
}

const newer = (a?: string, b?: string): number => (b ?? "").localeCompare(a ?? "");
const comparers: Record<Order, (a: Session, b: Session) => number> = {
  used: (a, b) => newer(a.last_used_at, b.last_used_at),
  made: (a, b) => newer(a.created_at, b.created_at),
  size: (a, b) => b.offset - a.offset,
  name: (a, b) => titleOf(a).localeCompare(titleOf(b)),
};
