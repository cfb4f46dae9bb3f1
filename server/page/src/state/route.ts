import { computed, signal } from "@preact/signals";

/** The views in the order of their tabs. */
export const views = ["read", "incidents", "learn", "write", "sessions"] as const;
export type View = (typeof views)[number];

/** A place in the page: `#/read/SESSION/OFFSET`. The offset, or both parts, are optional. */
export interface Route {
  view: View;
  session: string;
  at: number; // an offset of the text; NaN for none
}

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** The current place in the page. */
export const route = computed<Route>(() => {
  const [view, session = "", at] = hash.value.replace(/^#\/?/, "").split("/");
  return {
    view: views.find((known) => known === view) ?? "read",
    session: decoded(session),
    at: parseInt(at, 10),
  };
});

/** Decodes a part of an address. A part that is not encoded does not change. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view and its session. */
export function href(view: View, session = route.value.session, at?: number): string {
  const place = at === undefined ? "" : `/${at}`;
  return `#/${view}${session ? `/${encodeURIComponent(session)}${place}` : ""}`;
}

/** Navigates to a view. */
export function go(view: View, session?: string, at?: number): void {
  location.hash = href(view, session, at);
}
