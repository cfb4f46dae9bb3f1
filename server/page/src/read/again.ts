import { deleteSession, forkSession, score, scratch } from "../api/sessions";
import { candidatesKept } from "../state/predictions";
import type { Reading } from "../state/reading";

const secondsKept = 600; // lifetime of the fork if the page closes before deleting it

/**
 * Asks the model again what it expected at a place. A fork from before the place is bit-identical
 * to the session then, and scores the same text.
 */
export async function askAgain(reading: Reading, place: number): Promise<void> {
  // A word is scored once the text after it has arrived.
  const end = reading.tokenAt(place)[1] + (reading.ofWords ? 1 : 0);
  const text = reading.text.all.slice(place, end);
  const fork = await forkSession(reading.session.value.id, {
    at_offset: reading.from + place,
    labels: scratch,
    ttl_seconds: secondsKept,
  });
  try {
    const options = { learn: false, logprobs: true, top_logprobs: candidatesKept };
    for await (const event of score(fork.id, text, options)) {
      if (event.type === "chunk" && event.logprobs?.length) {
        reading.placeScores(event);
      }
    }
  } finally {
    await deleteSession(fork.id);
    reading.touch();
  }
}
