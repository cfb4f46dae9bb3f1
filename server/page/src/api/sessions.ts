import { eventsOf } from "./events";
import { call, callJSON } from "./http";
import type {
  ForkRequest,
  Incident,
  IncidentList,
  Model,
  PastScores,
  Session,
  SessionRequest,
  StreamEvent,
  Verdict,
} from "./types";

const ndjson = "application/x-ndjson";

/** The path of a session by its id or name. */
export const pathOf = (id: string): string => `v1/sessions/${encodeURIComponent(id)}`;

/** What a stream of events contains besides each chunk's bits. */
export interface EventOptions {
  unit?: "chunk" | "line";
  logprobs?: boolean;
  top_logprobs?: number;
  updates?: boolean;
  offset?: number;
  learn?: boolean;
  text?: boolean;
}

export async function listModels(signal?: AbortSignal): Promise<Model[]> {
  return (await callJSON<{ data: Model[] }>("v1/models", { signal })).data;
}

export function createSession(request: SessionRequest): Promise<Session> {
  return callJSON("v1/sessions", { method: "POST", json: request });
}

export function getSession(id: string, signal?: AbortSignal): Promise<Session> {
  return callJSON(pathOf(id), { signal });
}

/** The label of sessions that the page creates for itself and deletes. Lists omit them. */
export const scratch = { page: "scratch" };

export async function listSessions(
  query: { after?: string; limit?: number; label?: string },
  signal?: AbortSignal,
): Promise<{ sessions: Session[]; next?: string }> {
  const page: { sessions: Session[]; next?: string } =
    await callJSON("v1/sessions", { query, signal });
  return { ...page, sessions: page.sessions.filter((s) => s.labels?.page !== scratch.page) };
}

const sessionsPerPage = 1000;
const pagesMost = 10;

/**
 * Returns the usable sessions, the last used first. The server lists sessions by age, so all pages
 * are fetched, up to 10,000 sessions.
 */
export async function lastUsed(signal?: AbortSignal): Promise<Session[]> {
  const all: Session[] = [];
  let after: string | undefined;
  for (let n = 0; n < pagesMost; n++) {
    const page = await listSessions({ after, limit: sessionsPerPage }, signal);
    all.push(...page.sessions.filter((s) => !s.error));
    if (!(after = page.next)) break;
  }
  return all.sort((a, b) => (b.last_used_at ?? "").localeCompare(a.last_used_at ?? ""));
}

export function forkSession(id: string, request: ForkRequest): Promise<Session> {
  return callJSON(`${pathOf(id)}/fork`, { method: "POST", json: request });
}

export async function deleteSession(id: string): Promise<void> {
  await call(pathOf(id), { method: "DELETE" });
}

/** Feeds text to a session, and yields its cost as it is scored. */
export async function* score(
  id: string,
  text: BodyInit,
  options: EventOptions,
  signal?: AbortSignal,
): AsyncGenerator<StreamEvent> {
  yield* eventsOf(await call(`${pathOf(id)}/score`, {
    method: "POST",
    body: text,
    type: "application/octet-stream",
    accept: ndjson,
    query: { ...options },
    signal,
  }));
}

/** Returns a session's last incidents, newest first. */
export async function lastIncidents(id: string, signal?: AbortSignal): Promise<Incident[]> {
  return (await callJSON<IncidentList>(`${pathOf(id)}/incidents`, { signal })).incidents;
}

/** Sets or removes the verdict on an incident; returns the session's incidents afterwards. */
export async function giveFeedback(
  id: string,
  incident: number,
  verdict: Verdict | null,
): Promise<Incident[]> {
  const json = verdict ? { incident, verdict } : { incident };
  return (await callJSON<IncidentList>(`${pathOf(id)}/feedback`, { method: "POST", json })).incidents;
}

/** Yields the events of a session that another client feeds, from now on. */
export async function* watch(
  id: string,
  options: EventOptions,
  signal?: AbortSignal,
): AsyncGenerator<StreamEvent> {
  yield* eventsOf(await call(`${pathOf(id)}/events`, {
    accept: ndjson,
    query: { ...options },
    signal,
  }));
}

/** Returns a part of a session's text, and the range of text that the session keeps. */
export async function readText(
  id: string,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<{ bytes: Uint8Array; from: number; end: number }> {
  const response = await call(`${pathOf(id)}/text`, {
    accept: "application/octet-stream",
    query: { offset, length },
    signal,
  });
  return {
    bytes: new Uint8Array(await response.arrayBuffer()),
    from: Number(response.headers.get("Lmserve-Text-From") ?? 0),
    end: Number(response.headers.get("Lmserve-Session-Offset") ?? 0),
  };
}

/** The largest range of text whose scores one request returns. */
export const pastBytesMax = 16 << 20;

/** Returns the bits of a session's past in about `points` pieces. */
export function pastScores(
  id: string,
  query: { offset?: number; length?: number; points?: number },
  signal?: AbortSignal,
): Promise<PastScores> {
  return callJSON(`${pathOf(id)}/scores`, { query, signal });
}
