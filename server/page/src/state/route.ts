import { computed, signal } from "@preact/signals";

/** The views, in the order of their tabs. */
export const views = ["read", "incidents", "learn", "write", "sessions"] as const;
export type View = (typeof views)[number];

/** A place in the page: `#/read/SESSION/OFFSET`. The offset, or both, may be left out. */
export interface Route {
  view: View;
  session: string;
  at: number; // an offset of the text; NaN for none
}

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** Where the page is. */
export const route = computed<Route>(() => {
  const [view, session = "", at] = hash.value.replace(/^#\/?/, "").split("/");
  return {
    view: views.find((known) => known === view) ?? "read",
    session: decoded(session),
    at: parseInt(at, 10),
  };
});

/** A part of an address as it was before it was encoded. What was not encoded stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view, with the session that it is to show. */
export function href(view: View, session = route.value.session, at?: number): string {
  const place = at === undefined ? "" : `/${at}`;
  return `#/${view}${session ? `/${encodeURIComponent(session)}${place}` : ""}`;
}

/** Goes to a view. */
export function go(view: View, session?: string, at?: number): void {
  location.hash = href(view, session, at);
}
