import { useEffect, useMemo, useState } from "preact/hooks";
import { getSession, pastScores } from "../api/sessions";
import type { Reading } from "../state/reading";
import { Costs } from "./costs";

/** How often it is asked how far a shadow has come. */
const askMs = 2000;
const pointsMax = 4096;

/**
 * What the same text costs a session's shadow, which follows it by its own pace; null where it has
 * none. Costs are by byte, which all models have in common.
 */
export function useShadow(of: Reading): Costs | null {
  const id = of.session.value.shadows?.[0]?.id;
  const costs = useMemo(() => (id ? new Costs(false) : null), [id]);
  const [, render] = useState(0);
  useEffect(() => {
    if (!id || !costs) return;
    const ended = new AbortController();
    const look = async (): Promise<void> => {
      const { offset } = await getSession(id, ended.signal);
      if (offset <= costs.end) return;
      const query = { offset: costs.end, length: offset - costs.end, points: pointsMax };
      for (const piece of (await pastScores(id, query, ended.signal)).scores) costs.add(piece);
      render((n) => n + 1);
    };
    const again = (): void => {
      // A shadow that cannot be read now is asked again; that it is gone is seen by its silence.
      look().catch(() => {}).finally(() => {
        if (!ended.signal.aborted) setTimeout(again, askMs);
      });
    };
    again();
    return () => ended.abort();
  }, [id, costs]);
  return costs;
}
