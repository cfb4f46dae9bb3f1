type Kind = "sessionStorage" | "localStorage";

/** Returns a text that the browser has kept; null without one, or if storage is forbidden. */
export function stored(kind: Kind, place: string): string | null {
  try {
    return window[kind].getItem(place);
  } catch {
    return null;
  }
}

/** Lets the browser keep a text, or removes it; without effect if storage is full or forbidden. */
export function store(kind: Kind, place: string, text: string | null): void {
  try {
    if (text === null) window[kind].removeItem(place);
    else window[kind].setItem(place, text);
  } catch {
    // The page works without it.
  }
}
