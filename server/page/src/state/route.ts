import { computed, signal } from "@preact/signals";

/** The views, in the order of their tabs. */
export const views = ["read", "learn", "write", "sessions"] as const;
export type View = (typeof views)[number];

/** A place in the page: `#/read/SESSION`. The session may be left out. */
export interface Route {
  view: View;
  session: string;
}

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** Where the page is. */
export const route = computed<Route>(() => {
  const [view, session = ""] = hash.value.replace(/^#\/?/, "").split("/");
  return {
    view: views.find((known) => known === view) ?? "read",
    session: decoded(session),
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
export function href(view: View, session = route.value.session): string {
  return `#/${view}${session ? `/${encodeURIComponent(session)}` : ""}`;
}

/** Goes to a view. */
export function go(view: View, session?: string): void {
  location.hash = href(view, session);
}
