import { ProblemError, isAbort, unreachable } from "./problem";
import type { StreamEvent } from "./types";

/**
 * Gives the events of an answer in application/x-ndjson as they come. An `error` event, and an
 * answer that ends without its end, are thrown.
 */
export async function* eventsOf(response: Response): AsyncGenerator<StreamEvent> {
  for await (const line of linesOf(response.body!)) {
    if (line === "") continue; // sent now and then so that the connection is seen to live
    const event = JSON.parse(line) as StreamEvent;
    if (event.type === "error") throw new ProblemError(event.problem);
    yield event;
  }
}

/** Gives the lines of a stream of UTF-8, without their ends. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const parts = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = parts.pop()!;
      yield* parts;
      if (done) break;
    }
  } catch (error) {
    throw error instanceof ProblemError || isAbort(error) ? error : unreachable(String(error));
  } finally {
    await reader.cancel().catch(() => {}); // nobody reads on
  }
  if (rest !== "") throw unreachable("The answer was cut off.");
}
