import { useEffect, useState } from "preact/hooks";
import { getSession, pastScores } from "../api/sessions";
import type { Session } from "../api/types";
import type { Reading } from "../state/reading";
import { shadowName } from "../ui/words";
import { Costs } from "./costs";

/** How often it is asked how far the shadows have come. */
const askMs = 2000;
const pointsMax = 4096;

/** What a session's text costs a shadow of it. */
export interface Shadowed {
  id: string;
  name: string;
  costs: Costs; // by byte, which all models have in common
}

/** The shadows of a session, which follow it by their own pace, and what the text costs each. */
export function useShadows(of: Reading): Shadowed[] {
  const [shadows, setShadows] = useState<Shadowed[]>([]);
  useEffect(() => {
    const ended = new AbortController();
    let known: Shadowed[] = [];
    const again = async (): Promise<void> => {
      const before = newsOf(known);
      // What cannot be read now is asked again; that it is gone is seen by its silence.
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

/** Changes when there is more of any of the shadows. */
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
  const query = { offset: costs.end, length: offset - costs.end, points: pointsMax };
  for (const piece of (await pastScores(id, query, signal)).scores) costs.add(piece);
}
