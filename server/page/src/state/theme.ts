import { effect, signal } from "@preact/signals";
import { store, stored } from "./stored";

const place = "lmserve.theme";
const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** The chosen theme; "auto" follows the system. */
export const theme = signal<Theme>(
  themes.find((known) => known === stored("localStorage", place)) ?? "auto",
);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  store("localStorage", place, theme.value);
});

/** Switches to the next of auto, light and dark. */
export function nextTheme(): void {
  theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length];
}

const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

/** Whether the page is dark now. A canvas that reads this is redrawn after a change. */
export function isDark(): boolean {
  return theme.value === "dark" || (theme.value === "auto" && systemIsDark.value);
}

/** The value of a CSS variable such as "--ink", for a canvas. */
export function colourOf(token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
