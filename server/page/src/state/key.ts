import { signal } from "@preact/signals";
import { store, stored } from "./stored";

const place = "lmserve.key";

/** The key for requests; "" for none. It is stored only for this tab. */
export const key = signal(stored("sessionStorage", place) ?? "");

/** Whether the page needs a key: "no", "first", or "again" if the previous one was refused. */
export const keyWanted = signal<"no" | "first" | "again">("no");

const waiting = new Set<() => void>();

/** Waits until the user has entered a key. */
export function keyAsked(signal?: AbortSignal): Promise<void> {
  if (keyWanted.value === "no" && key.value !== "") return Promise.resolve();
  return new Promise((resolve, reject) => {
    const givenUp = (): void => {
      waiting.delete(resume);
      reject(signal!.reason);
      if (waiting.size === 0) keyWanted.value = "no"; // nobody needs the key any longer
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

/** Stores a key, and resumes everything that waits for one. */
export function giveKey(given: string): void {
  // Other characters are in no key, and browsers refuse to send them.
  if (/[^!-~]/.test(given.trim())) return forgetKey(true);
  key.value = given.trim();
  store("sessionStorage", place, key.value);
  keyWanted.value = "no";
  for (const resume of waiting) resume();
  waiting.clear();
}

/** Forgets the key and asks for another. */
export function forgetKey(wasRefused: boolean): void {
  key.value = "";
  store("sessionStorage", place, null);
  keyWanted.value = wasRefused ? "again" : "first";
}
