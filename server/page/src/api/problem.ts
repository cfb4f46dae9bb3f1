import type { Problem } from "./types";

/** A request that came to nothing, with what a person may do about it. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.title);
  }

  /** The last part of the type, such as "session-busy". */
  get kind(): string {
    return this.problem.type.slice(this.problem.type.lastIndexOf(":") + 1);
  }
}

/** What no server has answered: the connection is gone, or the answer is none of lmserve's. */
export function unreachable(detail: string): ProblemError {
  return new ProblemError({
    type: "page:unreachable",
    title: "The server does not answer",
    status: 0,
    detail,
  });
}

const advice: Record<string, string> = {
  unreachable: "Is lmserve still running, and this computer connected? Then try again.",
  unauthorized: "Give a key of this server; `lmserve keys add` makes one.",
  "session-not-found": "It may have been deleted or have expired. Choose another under Sessions.",
  "session-busy": "Something else feeds this session. Watch it, or try again when that has ended.",
  "session-unusable": "Export what can be read of it under Sessions, and begin a new one.",
  "session-full": "Begin a new session, or fork this one further back.",
  "session-shadow": "It reads what the session before it reads. Feed that one, or fork this one.",
  "name-taken": "Choose another name.",
  "session-limit": "Delete sessions that you do not need, or wait until others are idle.",
  "key-session-limit": "Delete sessions that you do not need.",
  "key-disk-limit": "Delete sessions that you do not need.",
  "key-rate-limit": "Wait a moment, then go on.",
  "history-trimmed": "The session keeps the end of its text only.",
  "no-space": "Whoever runs the server has to make room on its disk.",
  "model-unavailable": "Begin with another model, or have whoever runs the server look at its log.",
  overloaded: "Wait a moment, then try again.",
  draining: "Wait until the server is there again, then go on.",
};

/** What to do now; "" where the problem says it all. */
export function adviceOn(error: ProblemError): string {
  return advice[error.kind] ?? "";
}

/** What happened, in sentences, beyond the title. */
export function detailOf({ problem: p }: ProblemError): string {
  const found = p.field && p.expected
    ? `${p.field}: found ${p.found ?? "nothing"}, expected ${p.expected}`
    : "";
  return [p.detail, found].filter(Boolean).join(" — ");
}

/** Any error as one that can be shown. */
export function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return unreachable(error instanceof Error ? error.message : String(error));
}

/** Whether a request was given up on purpose. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
