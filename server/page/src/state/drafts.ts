const place = (session: string): string => `lmserve.draft.${session}`;

/** The drafts of this visit. They also cover a full or forbidden storage. */
const drafts = new Map<string, string>();

/** Returns the draft of a session, also after a reload; "" if there is none. */
export function draftOf(session: string): string {
  const known = drafts.get(session);
  if (known !== undefined) return known;
  try {
    return sessionStorage.getItem(place(session)) ?? "";
  } catch {
    return "";
  }
}

/** Keeps the draft of a session while other views are shown and over a reload, for this tab. */
export function keepDraft(session: string, draft: string): void {
  drafts.set(session, draft);
  try {
    if (draft) sessionStorage.setItem(place(session), draft);
    else sessionStorage.removeItem(place(session));
  } catch {
    // The storage is full: the draft survives until the page is closed.
  }
}
