import { call, callJSON } from "./http";
import { pathOf } from "./sessions";
import type { Session } from "./types";

/**
 * Changes to a session; null removes a label or the name, or turns a shadow into an ordinary
 * session.
 */
export interface SessionPatch {
  name?: string | null;
  labels?: Record<string, string | null>;
  ttl_seconds?: number;
  shadow_of?: null;
}

export function patchSession(id: string, patch: SessionPatch): Promise<Session> {
  return callJSON(pathOf(id), { method: "PATCH", json: patch });
}

/** Creates a session with a name, which must be free. */
export function putSession(name: string, request: object): Promise<Session> {
  return callJSON(pathOf(name), { method: "PUT", json: request });
}

/** Returns a session's file, and the file name from the server. */
export async function exportSession(id: string): Promise<{ file: Blob; name: string }> {
  const response = await call(`${pathOf(id)}/snapshot`, { accept: "application/x-tar" });
  const named = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
  return { file: await response.blob(), name: named?.[1] ?? `${id}.tar` };
}

export function importSession(file: Blob, name: string): Promise<Session> {
  return callJSON("v1/sessions/import", {
    method: "POST",
    body: file,
    type: "application/octet-stream",
    query: { name: name || undefined },
  });
}
