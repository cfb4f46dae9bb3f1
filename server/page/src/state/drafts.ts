import { store, stored } from "./stored";

/** Text that was committed, but perhaps not sent, and its offset in the session. */
export interface Unsent {
  offset: number;
  text: Uint8Array;
  mayHaveTo: number; // the session may have the text up to this offset
}

const place = (session: string): string => `lmserve.draft.${session}`;

/** The drafts of this visit. They also cover a full or forbidden storage. */
const drafts = new Map<string, string>();

/** Returns the draft of a session, also after a reload; "" if there is none. */
export function draftOf(session: string): string {
  return drafts.get(session) ?? stored("sessionStorage", place(session)) ?? "";
}

/** Keeps the draft of a session while other views are shown and over a reload, for this tab. */
export function keepDraft(session: string, draft: string): void {
  drafts.set(session, draft);
  store("sessionStorage", place(session), draft || null);
}

const unsentPlace = (session: string): string => `lmserve.unsent.${session}`;

/** The unsent texts of this visit. They also cover a full or forbidden storage. */
const unsents = new Map<string, Unsent>();
/** The longest text that is kept over a reload. */
const storedBytesMax = 1 << 20;

/** Returns the unsent text of a session, also after a reload. */
export function unsentOf(session: string): Unsent | null {
  const known = unsents.get(session);
  if (known) return known;
  const kept = JSON.parse(stored("sessionStorage", unsentPlace(session)) ?? "null");
  return kept && { ...kept, text: Uint8Array.from(kept.text) };
}

/** Keeps the unsent text of a session over a reload, for this tab; null once it is sent. */
export function keepUnsent(session: string, unsent: Unsent | null): void {
  if (unsent) unsents.set(session, unsent);
  else unsents.delete(session);
  const isStored = unsent && unsent.text.length <= storedBytesMax;
  const kept = isStored ? JSON.stringify({ ...unsent, text: [...unsent.text] }) : null;
  store("sessionStorage", unsentPlace(session), kept);
}
