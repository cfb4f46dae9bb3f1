import { forgetKey, key, keyAsked } from "../state/key";
import { ProblemError, isAbort, unreachable } from "./problem";
import type { Problem } from "./types";

export interface Call {
  method?: string;
  body?: BodyInit;
  json?: unknown;
  type?: string;
  accept?: string;
  query?: Record<string, string | number | boolean | undefined>;
  signal?: AbortSignal;
}

/**
 * Makes a request to the page's server. If the server requires a key, the page asks for it and
 * repeats the request. All other problems are thrown as a ProblemError.
 */
export async function call(path: string, c: Call = {}): Promise<Response> {
  for (;;) {
    const used = key.value;
    const response = await send(path, c, used);
    if (response.ok) return response;
    const error = new ProblemError(await problemOf(response));
    if (response.status !== 401) throw error;
    if (used === key.value) forgetKey(used !== "");
    await keyAsked(c.signal);
  }
}

/** Makes a request whose answer is JSON. */
export async function callJSON<T>(path: string, c: Call = {}): Promise<T> {
  return (await call(path, c)).json();
}

async function send(path: string, c: Call, withKey: string): Promise<Response> {
  const headers = new Headers({ Accept: c.accept ?? "application/json" });
  if (withKey) headers.set("Authorization", `Bearer ${withKey}`);
  const type = c.json === undefined ? c.type : "application/json";
  if (type) headers.set("Content-Type", type);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(c.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  try {
    return await fetch(path + (query.size ? `?${query}` : ""), {
      method: c.method ?? "GET",
      headers,
      body: c.json === undefined ? c.body : JSON.stringify(c.json),
      signal: c.signal,
      cache: "no-store",
    });
  } catch (error) {
    throw isAbort(error) ? error : unreachable(String(error));
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const problem = JSON.parse(text) as Problem | null;
    if (typeof problem?.type === "string" && typeof problem.title === "string") return problem;
  } catch {
    // not JSON
  }
  return {
    type: "page:unreachable",
    title: "The answer is not from lmserve",
    status: response.status,
    detail: text.slice(0, 200) || response.statusText,
  };
}
