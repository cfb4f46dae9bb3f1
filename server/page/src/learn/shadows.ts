import { useEffect, useState } from "preact/hooks";
import { getSession, pastBytesMax, pastScores, readText } from "../api/sessions";
import type { Session } from "../api/types";
import type { Reading } from "../state/reading";
import { shadowName } from "../ui/words";
import { Costs } from "../state/costs";

/** The interval for checking the progress of shadows. */
const askMs = 2000;
const pointsMax = 4096;

/** The cost of a session's text for a shadow. */
export interface Shadowed {
  id: string;
  name: string;
  costs: Costs; // per byte, the unit common to all models
}

/**
 * Returns the session's shadows, which follow it at their own pace, and the cost of the text for
 * each.
 */
export function useShadows(of: Reading): Shadowed[] {
  const [shadows, setShadows] = useState<Shadowed[]>([]);
  useEffect(() => {
    const ended = new AbortController();
    let known: Shadowed[] = [];
    const again = async (): Promise<void> => {
      const before = newsOf(known);
      // A failed read is retried; a shadow that is gone stays silent.
      known = await look(of.session.peek().id, known, ended.signal).catch(() => known);
      if (ended.signal.aborted) return;
      if (newsOf(known) !== before) setShadows(known);
      setTimeout(() => void again(), askMs);
    };
    void again();
    return () => ended.abort();
  }, [of]);
  return shadows;
}

/** Changes when a shadow has news. */
export function newsOf(shadows: Shadowed[]): string {
  return shadows.map(({ id, costs }) => `${id} ${costs.end}`).join();
}

async function look(id: string, known: Shadowed[], signal: AbortSignal): Promise<Shadowed[]> {
  const of = await getSession(id, signal);
  return Promise.all((of.shadows ?? []).map(async (shadow) => {
    const before = known.find((one) => one.id === shadow.id);
    const costs = before?.costs ?? new Costs(false);
    const session = await getSession(shadow.id, signal);
    await take(costs, session, signal);
    return { id: shadow.id, name: shadowName(session, of), costs };
  }));
}

async function take(costs: Costs, { id, offset }: Session, signal: AbortSignal): Promise<void> {
  if (offset <= costs.end) return;
  // A session may keep only the end of its text.
  const first = costs.end || (await readText(id, offset, 1, signal)).from;
  for (let at = first; at < offset; at += pastBytesMax) {
    const query = { offset: at, length: Math.min(pastBytesMax, offset - at), points: pointsMax };
    for (const piece of (await pastScores(id, query, signal)).scores) costs.add(piece);
  }
}
