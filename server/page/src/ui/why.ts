import type { LineWhy } from "../api/types";

/** The server cuts usual values to this many bytes. */
const usualBytes = 12;

/** Why a line is strange, in words: "502 after HTTP/1.1; usually 200, 304". */
export function reasonOf(why: LineWhy | undefined): string {
  if (!why) return "";
  const { token, before, lines, usual } = why;
  const where = lines === 0 ? " is new"
    : lines !== undefined ? ` was in ${lines} line${lines === 1 ? "" : "s"} before`
    : before ? ` after ${before}` : "";
  const cut = usual.map((word) => (word.length >= usualBytes ? `${word}…` : word));
  return token + where + (cut.length ? `; usually ${cut.join(", ")}` : "");
}

/** The range of a line's strangest token; [0, 0] if it is not in the line. */
export function markOf(line: string, why: LineWhy | undefined): [number, number] {
  if (!why?.token) return [0, 0];
  const after = why.before ? line.indexOf(why.before) + why.before.length : 0;
  let at = line.indexOf(why.token, Math.max(0, after));
  if (at < 0) at = line.indexOf(why.token);
  return at < 0 ? [0, 0] : [at, at + why.token.length];
}

const million = 1e6;

/** How strange a line is: "1 in 2,400". */
export const rankText = (rank: number): string =>
  rank >= million ? "1 in 1M+" : `1 in ${rank.toLocaleString("en").replaceAll(",", "\u202f")}`;
