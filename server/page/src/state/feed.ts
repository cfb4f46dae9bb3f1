import { computed, effect, signal, untracked } from "@preact/signals";
import { bytesOf } from "../api/events";
import { asProblem, isAbort, isRefusal, ProblemError } from "../api/problem";
import {
  createSession, deleteSession, forkSession, getSession, listModels, pastBytesMax, pastScores,
  readText, score, scratch, watch, type EventOptions,
} from "../api/sessions";
import type { Model, Session } from "../api/types";
import { firstOf } from "../ui/words";
import { keepUnsent, unsentOf } from "./drafts";
import { candidatesKept } from "./predictions";
import { Reading } from "./reading";
import { go, route } from "./route";

/** The reading of the current session; null without one. */
export const reading = signal<Reading | null>(null);

/** Why the session in the address could not be opened; null otherwise. */
export const openProblem = signal<ProblemError | null>(null);

/** The server's models; the first is the default. */
export const models = signal<Model[]>([]);

/** The models that predict text; the model of method `counts` only rates lines. */
export const networks = computed(() =>
  models.value.filter(({ defaults }) => defaults.method !== "counts"));

/** The id of the model for new sessions; "" is the first. */
export const chosenModel = signal("");

/** How much of the text that the server has is shown, from its end. */
const textKept = 16 << 20;
const textPiece = 1 << 20;
/** Bytes of text per request. */
const sentBytes = 64 << 10;
/** The largest number of pieces of the past that the contract allows. */
const pastPoints = 4096;
/** How much of the past is scored again for the cost of each token. */
export const rereadBytes = 16 << 10;
const scratchSeconds = 600; // lifetime of a fork if the page closes before deleting it
const secondsKept = 7 * 24 * 3600;

const asked: EventOptions = { logprobs: true, top_logprobs: candidatesKept, updates: true };

let working = new AbortController();
/** The session of the address while it is fetched and not yet shown; "" otherwise. */
let opening = "";

/** Stops the page's work on the session. Scores are kept. */
export function stop(): void {
  working.abort();
  opening = "";
}

/**
 * Creates a session for a text, and shows it unless the user has opened another session meanwhile.
 * The session is deleted after a week without use.
 */
export async function begin(title: string): Promise<Reading> {
  await knowModels();
  const session = await createSession({
    model: chosenModel.value || networks.value[0]?.id,
    settings: { baseline: networks.value.length > 0 },
    labels: { title: firstOf(title, 256) },
    ttl_seconds: secondsKept,
  });
  const opened = await readingOf(session);
  if (!route.value.session) show(opened);
  return opened;
}

/** Shows a fork in place of the current session. No key is lost between their two sheets. */
export async function showFork(fork: Session): Promise<void> {
  const opened = await readingOf(fork);
  show(opened);
  await catchUp(opened);
}

/** Shows a session without text, and navigates there. */
function show(opened: Reading): void {
  stop();
  reading.value = opened;
  go(route.value.view, opened.session.value.id);
}

/**
 * Feeds a text to the current session piece by piece, and shows its cost. Bytes are part of the
 * shown text at once. `isKept`: the text is sent later if the user leaves or reloads the page.
 */
export async function feed(into: Reading, text: Uint8Array, isKept = false): Promise<void> {
  await work(into, "feeding", async (signal) => {
    // What is left of the past, where opening has ended early.
    const { offset } = into.session.value;
    if (into.end < offset) await fetchText(into, offset, signal);
    into.addText(text);
    if (isKept) keep(into, restOf(into));
    if (into.lacksPast) await fetchScores(into, offset, signal);
    await send(into, restOf(into), signal);
  });
}

/** Feeds a text to a session that was left before it was shown. */
export async function feedUnshown(into: Reading, text: Uint8Array): Promise<void> {
  into.addText(text);
  await finish(into);
}

/** Resumes feeding or watching after an interruption. */
export async function resume(into: Reading): Promise<void> {
  const { id, offset: sent } = into.session.value;
  if (into.end <= sent) return into.lacksPast || unsentOf(id) ? catchUp(into) : follow(into);
  let rest: Uint8Array | null = null;
  await work(into, "feeding", async (signal) => {
    const session = await getSession(id, signal);
    if (session.offset > sent) {
      rest = await restAfterOthers(into, sent, session.offset, signal);
      if (rest) return;
    }
    into.session.value = session;
    // The scores of text that was accepted but not reported.
    if (into.lacksPast) await fetchScores(into, session.offset, signal);
    await send(into, restOf(into), signal);
  });
  if (!rest) return;
  if (reading.peek() === into) await open(id, rest);
  else await finish(into).catch(() => {}); // the text is kept for the next visit
}

/**
 * Returns what the session lacks of the text after `from` if another client has fed the session;
 * null if only this text was fed. Equal text counts as fed only where the session may have it.
 */
async function restAfterOthers(
  into: Reading, from: number, to: number, signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const mine = into.text.all.slice(from - into.from);
  const most = Math.min(to, into.mayHaveTo) - from;
  let same = 0;
  while (same < most) {
    const length = Math.min(textPiece, most - same);
    const { bytes } = await readText(into.session.value.id, from + same, length, signal);
    const other = bytes.findIndex((byte, i) => byte !== mine[same + i]);
    same += other < 0 ? bytes.length : other;
    if (other >= 0 || bytes.length === 0) break;
  }
  return same === to - from ? null : mine.slice(same);
}

/** The sessions to which `finish` sends text. */
const finishing = new Set<string>();

/**
 * Sends what is left of a text after the user has left the session. If another client has fed the
 * session meanwhile, the text is sent after the other text. Text that the session does not get is
 * sent when the session is opened again.
 */
export async function finish(into: Reading): Promise<void> {
  const { id, offset: sent } = into.session.value;
  keep(into, restOf(into));
  finishing.add(id);
  try {
    const session = await getSession(id);
    const rest = await restAfterOthers(into, sent, session.offset);
    into.session.value = session;
    if (rest) {
      into.mayHaveTo = session.offset;
      keep(into, rest);
    }
    await send(into, rest ?? restOf(into));
  } finally {
    finishing.delete(id);
  }
}

/** The text that the session does not have yet, if only this page has fed the session. */
const restOf = (into: Reading): Uint8Array<ArrayBuffer> =>
  into.text.all.slice(into.session.value.offset - into.from);

/** Keeps a text that the session lacks over a reload and until the session is opened again. */
function keep(into: Reading, text: Uint8Array): void {
  const { id, offset } = into.session.value;
  into.isKept = true;
  keepUnsent(id, { offset, text, mayHaveTo: into.mayHaveTo });
}

/** Notes up to which offset the session may have the text. */
function note(into: Reading, mayHaveTo: number): void {
  const { id } = into.session.value;
  into.mayHaveTo = mayHaveTo;
  const unsent = into.isKept && unsentOf(id);
  if (unsent) keepUnsent(id, { ...unsent, mayHaveTo });
}

/** Sends text from the session's end on. */
async function send(
  into: Reading, text: Uint8Array<ArrayBuffer>, signal?: AbortSignal,
): Promise<void> {
  const { id, offset } = into.session.value;
  for (let at = 0; at < text.length; at += sentBytes) {
    const options = { ...asked, offset: offset + at };
    const piece = text.slice(at, at + sentBytes);
    const before = into.mayHaveTo;
    note(into, offset + at + piece.length);
    try {
      for await (const event of score(id, piece, options, signal)) into.take(event);
    } catch (error) {
      if (isRefusal(error)) note(into, before);
      throw error;
    }
  }
  if (into.isKept) keepUnsent(id, null);
  into.isKept = false;
}

/** Shows what another client feeds to the session, until stopped. */
async function follow(into: Reading): Promise<void> {
  await work(into, "watching", async (signal) => {
    const options = { ...asked, offset: into.end };
    for await (const event of watch(into.session.value.id, options, signal)) {
      if (event.type === "gap") await fetchPast(into, event.to, signal);
      if (event.type === "chunk") addOthers(into, bytesOf(event));
      into.take(event);
    }
  });
}

/** Adds text that the server has. Text before the last `textKept` bytes is forgotten. */
function addOthers(into: Reading, more: Uint8Array): void {
  const end = into.end + more.length;
  if (end - into.from > textKept) into.cut(end - textKept * 3 / 4); // seldom, as all bytes move
  into.addText(more);
}

/**
 * Opens the session in the address with the text and scores that the server still has. Then it
 * feeds the rest of a text, if any, and watches the session.
 */
async function open(id: string, rest?: Uint8Array): Promise<void> {
  stop();
  const { signal } = (working = new AbortController());
  openProblem.value = null;
  const before = reading.peek();
  const again = before?.isNamed(id) ? before : null;
  if (!again) {
    opening = id;
    reading.value = null; // work on the session before would cancel the opening
  }
  let opened: Reading;
  try {
    opened = await readingOf(await getSession(id, signal));
    if (signal.aborted) return;
  } catch (error) {
    if (signal.aborted) return;
    opening = "";
    if (again) again.problem.value = asProblem(error);
    else openProblem.value = asProblem(error);
    return;
  }
  opening = "";
  if (again) opened.isKept = again.isKept;
  reading.value = opened;
  await catchUp(opened, rest);
}

/**
 * Fetches what the page lacks of the session's text, feeds the rest of a text, if any, and watches
 * the session.
 */
async function catchUp(into: Reading, rest?: Uint8Array): Promise<void> {
  const { offset } = into.session.value;
  await work(into, "opening", (signal) => fetchPast(into, offset, signal));
  const unsent = rest ?? restOfUnsent(into);
  if (unsent && reading.value === into) {
    await feed(into, unsent, !rest || into.isKept);
    // The session may have got the text meanwhile, from a request before the reload.
    const isConflict = into.problem.value?.kind === "offset-conflict";
    if (!rest && isConflict && reading.value === into) await resume(into);
  }
  if (into.from === 0 && into.coarseTo <= rereadBytes) void reread(into);
  const isIdle = into.activity.value === "idle" && !working.signal.aborted;
  if (reading.value === into && isIdle && !into.problem.value) void follow(into);
}

/**
 * Returns what the session lacks of its unsent text, for example from before a reload; null if this
 * text must wait. The session may still get the text from a request from before the reload.
 */
function restOfUnsent(into: Reading): Uint8Array | null {
  const { id, offset } = into.session.value;
  const unsent = unsentOf(id);
  if (!unsent || into.end !== offset || finishing.has(id)) return null;
  const from = unsent.offset - into.from;
  if (from < 0) return new Uint8Array(); // sent long ago: the server no longer has this text
  const to = Math.max(unsent.offset, unsent.mayHaveTo) - into.from;
  const has = into.text.all.subarray(from, to);
  const other = has.findIndex((byte, i) => byte !== unsent.text[i]);
  if (other < 0) into.mayHaveTo = unsent.mayHaveTo;
  return unsent.text.slice(other < 0 ? has.length : other);
}

/** Fetches what the page lacks of the text before an offset, and of its cost. */
async function fetchPast(into: Reading, to: number, signal: AbortSignal): Promise<void> {
  if (into.end < to) await fetchText(into, to, signal);
  await fetchScores(into, to, signal);
}

/** Fetches the text from the page's end to an offset, as far as the server still has it. */
async function fetchText(into: Reading, to: number, signal: AbortSignal): Promise<void> {
  const { id } = into.session.value;
  const first = Math.max(into.end, to - textKept, await keptFrom(id, to, signal));
  if (first > into.end) into.cut(first);
  for (let at = into.end; at < to;) {
    const piece = await readText(id, at, Math.min(textPiece, to - at), signal);
    if (piece.bytes.length === 0) break;
    addOthers(into, piece.bytes);
    at += piece.bytes.length;
  }
}

/** Fetches the scores that the page lacks of the text before an offset. */
async function fetchScores(into: Reading, to: number, signal: AbortSignal): Promise<void> {
  const { id } = into.session.value;
  const first = Math.max(into.scoredTo, await keptFrom(id, to, signal));
  for (let at = first; at < to; at += pastBytesMax) {
    const range = { offset: at, length: Math.min(pastBytesMax, to - at), points: pastPoints };
    into.addPast(await pastScores(id, range, signal));
  }
  // The server has no score yet of an unfinished word, and of the newest text of some forks.
  into.scoredTo = Math.max(into.scoredTo, to);
}

/** Returns the offset of the oldest text before `to` that the server has; `to` without any. */
async function keptFrom(id: string, to: number, signal: AbortSignal): Promise<number> {
  try {
    return (await readText(id, to, 1, signal)).from;
  } catch (error) {
    if (error instanceof ProblemError && error.kind === "history-trimmed") return to;
    throw error;
  }
}

/**
 * Scores the end of the past again for the cost of each token, because the server keeps only sums
 * of pieces. A fork from before that text is bit-identical to the session then. If it fails, the
 * sums remain.
 */
export async function reread(into: Reading): Promise<void> {
  const to = into.coarseTo;
  const from = Math.max(0, to - rereadBytes);
  if (into.rereading.value || to === 0 || !into.hasCosts) return;
  into.rereading.value = true;
  const text = into.text.all.slice(from, to);
  let fork: Session | undefined;
  try {
    fork = await forkSession(into.session.value.id, {
      at_offset: into.from + from, labels: scratch, ttl_seconds: scratchSeconds,
    });
    for await (const event of score(fork.id, text, asked)) {
      if (reading.value !== into) return;
      if (event.type !== "chunk") continue;
      into.placeScores(event);
      into.touch();
    }
    if (into.coarseTo === to) into.coarseTo = from;
  } catch {
    // The map keeps the means, and says so.
  } finally {
    into.rereading.value = false;
    into.touch();
    if (fork) await deleteSession(fork.id).catch(() => undefined);
  }
}

/** Fetches the server's models once. */
export async function knowModels(signal?: AbortSignal): Promise<void> {
  if (models.value.length === 0) models.value = await listModels(signal);
}

async function readingOf(session: Session): Promise<Reading> {
  await knowModels();
  const model = models.value.find((m) => m.id === session.model) ?? models.value[0];
  return new Reading(session, model?.tokenizer === "words");
}

async function work(
  on: Reading, activity: "opening" | "feeding" | "watching",
  task: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  stop();
  const { signal } = (working = new AbortController());
  on.activity.value = activity;
  on.problem.value = null;
  try {
    await task(signal);
  } catch (error) {
    if (!isAbort(error)) on.problem.value = asProblem(error);
  } finally {
    if (working.signal === signal) on.activity.value = "idle";
  }
}

/** Ends the work of a reading that is no longer shown. */
let shown: Reading | null = null;
effect(() => {
  const now = reading.value;
  if (shown && shown !== now) void shown.ratings.end();
  shown = now;
});

effect(() => {
  const { view, session: named } = route.value;
  const isFeeding = !opening && reading.peek()?.activity.peek() === "feeding";
  if (view === "incidents" && isFeeding) return; // the text is sent to its end
  const session = view === "incidents" ? "" : named; // that view has its own stream
  const isOpen = opening ? session === opening : reading.peek()?.isNamed(session);
  // Opening again would cancel work.
  if (session && !isOpen) untracked(() => void open(session));
  if (!session) {
    // A text being sent is sent to its end; other work is canceled.
    if (!isFeeding) stop();
    reading.value = null;
    openProblem.value = null;
  }
});
