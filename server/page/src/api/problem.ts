import type { Problem } from "./types";

/** A failed request, with advice for the user. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.title);
  }

  /** The last part of the type, such as "session-busy". */
  get kind(): string {
    return this.problem.type.slice(this.problem.type.lastIndexOf(":") + 1);
  }
}

/** A request without an answer from lmserve: the connection broke, or something else answered. */
export function unreachable(detail: string): ProblemError {
  return new ProblemError({
    type: "page:unreachable",
    title: "The server does not answer",
    status: 0,
    detail,
  });
}

/** A file that the browser cannot read, such as a folder or a removed file. */
export function unreadable(file: File, error: unknown): ProblemError {
  return new ProblemError({
    type: "page:unreadable",
    title: "The file cannot be read",
    status: 0,
    detail: `${file.name}: ${error instanceof Error ? error.message : String(error)}`,
  });
}

const advice: Record<string, string> = {
  unreachable: "Check that lmserve runs and that this computer is connected. Then try again.",
  unreadable: "Choose an existing file that you may read. A folder is no file.",
  unauthorized: "Enter a key of this server; `lmserve keys add` creates a key.",
  "session-not-found": "The session may be deleted or expired. Choose another session under Sessions.",
  "session-busy": "Another client is feeding this session. Watch the session, or try again later.",
  "session-unusable": "Export the readable part of this session under Sessions, then start a new session.",
  "session-full": "Start a new session, or fork this session at an earlier byte.",
  "session-shadow": "A shadow reads the text of its original. Feed the original, or fork the shadow.",
  "name-taken": "Choose another name.",
  "session-limit": "Delete sessions that you do not need, or wait until others are idle.",
  "key-session-limit": "Delete sessions that you do not need.",
  "key-disk-limit": "Delete sessions that you do not need.",
  "key-rate-limit": "Wait a moment, then continue.",
  "history-trimmed": "This session keeps only the end of its text.",
  "no-space": "The server's disk is full: its operator must free space.",
  "model-unavailable": "Choose another model, or ask the server's operator to check its log.",
  overloaded: "Wait a moment, then try again.",
  draining: "Wait until the server is back, then continue.",
};

/** Returns what to do now; "" if the problem says everything. */
export function adviceOn(error: ProblemError): string {
  return advice[error.kind] ?? "";
}

/** Returns sentences on what happened, in addition to the title. */
export function detailOf({ problem: p }: ProblemError): string {
  const found = p.field && p.expected
    ? `${p.field}: found ${p.found ?? "nothing"}, expected ${p.expected}`
    : "";
  return [p.detail, found].filter(Boolean).join(" — ");
}

/** Converts any error to one that can be shown. */
export function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return unreachable(error instanceof Error ? error.message : String(error));
}

/** Whether an error proves that the session has got none of the request's text. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return false;
  if (error.kind === "offset-conflict") return true;
  const { type, status, offset } = error.problem;
  // With an offset, the session may have got the text before the offset.
  return type.startsWith("urn:") && offset === undefined && [409, 429, 503].includes(status);
}

/** Whether a request was canceled deliberately. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
