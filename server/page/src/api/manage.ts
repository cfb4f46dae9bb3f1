import { call, callJSON } from "./http";
import type { Session } from "./types";

/** Changes to a session; null removes a label or the name. */
export interface SessionPatch {
  name?: string | null;
  labels?: Record<string, string | null>;
  ttl_seconds?: number;
}

export function patchSession(id: string, patch: SessionPatch): Promise<Session> {
  return callJSON(`v1/sessions/${encodeURIComponent(id)}`, { method: "PATCH", json: patch });
}

/** Turns a shadow into an ordinary session. */
export function detachShadow(id: string): Promise<Session> {
  return callJSON(`v1/sessions/${encodeURIComponent(id)}`, {
    method: "PATCH", json: { shadow_of: null },
  });
}

/** Creates a session with a name, which must be free. */
export function putSession(name: string, request: object): Promise<Session> {
  return callJSON(`v1/sessions/${encodeURIComponent(name)}`, { method: "PUT", json: request });
}

/** Returns a session's file, and the file name from the server. */
export async function exportSession(id: string): Promise<{ file: Blob; name: string }> {
  const response = await call(`v1/sessions/${encodeURIComponent(id)}/snapshot`, {
    accept: "application/x-tar",
  });
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
