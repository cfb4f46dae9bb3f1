import { signal } from "@preact/signals";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { getSession, giveFeedback, lastIncidents, watch } from "../api/sessions";
import type { Incident, Session, StreamEvent, Verdict } from "../api/types";

const retryMs = 3000;
const keptMost = 500;
/** Temporary problems. */
const passing = new Set(["unreachable", "session-busy", "overloaded", "draining"]);

/** The live incidents of a session. */
export class Incidents {
  /** Newest first. */
  readonly list = signal<Incident[]>([]);
  readonly session = signal<Session | null>(null);
  readonly state = signal<"opening" | "live" | "lost" | "over">("opening");
  readonly hasLines = signal(true);
  readonly problem = signal<ProblemError | null>(null);
  /** The number of the last line. */
  readonly lines = signal(0);
  #end = new AbortController();

  constructor(readonly id: string) {
    void this.#run();
  }

  end(): void {
    this.#end.abort();
  }

  /** Sets or removes the verdict on an incident, and so on similar ones. */
  async judge(number: number, verdict: Verdict | null): Promise<void> {
    const before = this.list.value.find((i) => i.number === number)?.verdict;
    const show = (shown: Verdict | undefined): void => {
      this.list.value = this.list.value.map((i) =>
        i.number === number ? { ...i, verdict: shown } : i);
    };
    show(verdict ?? undefined);
    try {
      this.#put(await giveFeedback(this.id, number, verdict));
      this.problem.value = null;
    } catch (error) {
      if (isAbort(error)) return;
      show(before); // the server does not have it
      this.problem.value = asProblem(error);
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      try {
        this.session.value = await getSession(this.id, signal);
        for await (const event of watch(this.id, { unit: "line" }, signal)) {
          await this.#take(event);
        }
      } catch (error) {
        if (isAbort(error)) return;
        if (!this.#passes(asProblem(error))) {
          this.state.value = "over";
          return;
        }
      }
      this.state.value = "lost";
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }

  /** Reports a problem unless it is temporary. */
  #passes(problem: ProblemError): boolean {
    if (passing.has(problem.kind)) return true;
    this.problem.value = problem;
    return false;
  }

  async #take(event: StreamEvent): Promise<void> {
    if (event.type === "line") {
      this.hasLines.value = true;
      this.lines.value = event.number;
      if (event.incidents) this.#put(event.incidents);
    } else if (event.type === "start" || event.type === "gap") {
      if (event.type === "start") this.hasLines.value = event.lines_from !== undefined;
      await this.#refresh();
      this.state.value = "live";
    }
  }

  /** Fetches the last incidents, because a watch reports only later ones. */
  async #refresh(): Promise<void> {
    this.#put(await lastIncidents(this.id, this.#end.signal));
  }

  #put(some: Incident[]): void {
    const all = new Map(this.list.value.map((i) => [i.number, i]));
    for (const i of some) {
      const known = all.get(i.number);
      const isNewer = !known || i.lines > known.lines
        || (known.state === "open" && i.lines === known.lines);
      all.set(i.number, isNewer ? i : { ...known, verdict: i.verdict });
      this.lines.value = Math.max(this.lines.value, i.last);
    }
    this.list.value = [...all.values()].sort((a, b) => b.number - a.number).slice(0, keptMost);
  }
}
