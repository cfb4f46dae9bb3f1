import { signal } from "@preact/signals";

const place = "lmserve.key";

/** The key that requests are made with; "" is none. It is kept for this tab, and nowhere else. */
export const key = signal(sessionStorage.getItem(place) ?? "");

/** Whether the page waits for a key: "no", "first", or "again" where the one before was no good. */
export const keyWanted = signal<"no" | "first" | "again">("no");

const waiting = new Set<() => void>();

/** Waits until somebody has given a key. */
export function keyAsked(signal?: AbortSignal): Promise<void> {
  if (keyWanted.value === "no" && key.value !== "") return Promise.resolve();
  return new Promise((resolve, reject) => {
    const givenUp = (): void => {
      waiting.delete(resume);
      reject(signal!.reason);
      if (waiting.size === 0) keyWanted.value = "no"; // nobody needs it any more
    };
    const resume = (): void => {
      signal?.removeEventListener("abort", givenUp);
      resolve();
    };
    if (signal?.aborted) return givenUp();
    signal?.addEventListener("abort", givenUp, { once: true });
    waiting.add(resume);
  });
}

/** Takes a key, and lets all that wait for one go on. */
export function giveKey(given: string): void {
  key.value = given.trim();
  sessionStorage.setItem(place, key.value);
  keyWanted.value = "no";
  for (const resume of waiting) resume();
  waiting.clear();
}

/** Forgets the key and asks for another. */
export function forgetKey(wasRefused: boolean): void {
  key.value = "";
  sessionStorage.removeItem(place);
  keyWanted.value = wasRefused ? "again" : "first";
}
