import { store, stored } from "./stored";

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
