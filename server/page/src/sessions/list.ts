import { computed, signal } from "@preact/signals";
import { asProblem, type ProblemError } from "../api/problem";
import { listSessions } from "../api/sessions";
import type { Session } from "../api/types";
import { titleOf } from "../ui/words";

/** How many sessions are asked for at once, and shown at first. */
const pageSize = 200;
const shownFirst = 50;

export const orders = {
  used: "last used", made: "made last", size: "most text", name: "name",
} as const;
export type Order = keyof typeof orders;

/** The sessions that the server has told of, and which of them are shown. */
export class SessionList {
  readonly all = signal<Session[]>([]);
  readonly query = signal("");
  readonly order = signal<Order>("used");
  readonly loading = signal(false);
  readonly problem = signal<ProblemError | null>(null);
  readonly #most = signal(shownFirst);
  readonly #next = signal<string | undefined>(undefined);
  #asked = 0;

  /** All that match the query, in order. */
  readonly found = computed(() => {
    const words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.all.value
      .filter((session) => words.every((word) => wordsOf(session).includes(word)))
      .sort(comparers[this.order.value]);
  });

  /** Those of them that are shown. */
  readonly shown = computed(() => this.found.value.slice(0, this.#most.value));

  /** Whether there are more: here, or on the server. */
  readonly more = computed(() => this.found.value.length > this.#most.value || !!this.#next.value);

  /** How many the page knows, and whether that is all. */
  readonly known = computed(() => ({ count: this.all.value.length, all: !this.#next.value }));

  /** Asks for the sessions anew; the list stays as it is until they are there. */
  async refresh(): Promise<void> {
    await this.#load(undefined);
  }

  /** Shows more. Where there is a query, goes on until something matches it. */
  async showMore(): Promise<void> {
    this.#most.value += shownFirst;
    while (this.#next.value && this.found.value.length < this.#most.value) {
      if (!await this.#load(this.#next.value) || !this.query.value) return;
    }
  }

  /** Puts a session that has changed, or is new, in its place. */
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
      if (asked !== this.#asked) return false; // something newer was asked for
      this.all.value = after ? [...this.all.value, ...page.sessions] : page.sessions;
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
