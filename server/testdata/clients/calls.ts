// The same three calls with each generated client; clients_test.go compiles and runs this.
import createClient from "openapi-fetch";
import * as hey from "./hey/sdk.gen";
import { createClient as createHey } from "./hey/client";
import { Api } from "./swagger/api";
import type { paths } from "./types";

declare const process: { env: Record<string, string>; exitCode: number };

const baseUrl = process.env.LMSERVE_URL;
const text = "a quick brown fox, {\"as\": \"it is\"}\n".repeat(3);
const settings = { seed: 1 };
const more = { prompt: "a quick", max_tokens: 8, temperature: 0, seed: 1 };

/** What the three calls have told. */
interface Told {
  name?: string;
  bytes?: number;
  bits?: number;
  text?: string;
}

async function openapiFetch(id: string): Promise<Told> {
  const client = createClient<paths>({ baseUrl });
  const params = { path: { id } };
  const made = await client.PUT("/v1/sessions/{id}", { params, body: settings });
  const scored = await client.POST("/v1/sessions/{id}/score", {
    params, body: text, bodySerializer: (body) => body, headers: { "Content-Type": "text/plain" },
  });
  const completed = await client.POST("/v1/sessions/{id}/complete", { params, body: more });
  return told(made.data, scored.data, completed.data);
}

async function heyAPI(id: string): Promise<Told> {
  const client = createHey({ baseUrl });
  const made = await hey.putSession({ client, path: { id }, body: settings });
  const scored = await hey.score({ client, path: { id }, body: text });
  const completed = await hey.complete({ client, path: { id }, body: more });
  return told(made.data, scored.data, completed.data);
}

async function swagger(id: string): Promise<Told> {
  const { v1 } = new Api({ baseUrl });
  const made = await v1.putSession(id, settings);
  const scored = await v1.score(id, text);
  const completed = await v1.complete(id, more);
  return told(made.data, scored.data, completed.data);
}

/** Scores and completions are of the types of events, too, as which they come if these are asked for. */
function told(made?: { name?: string }, scored?: unknown, completed?: unknown): Told {
  const { bytes, bits } = (scored ?? {}) as Told;
  return { name: made?.name, bytes, bits, text: ((completed ?? {}) as Told).text };
}

const all = [await openapiFetch("a"), await heyAPI("b"), await swagger("c")];
const right = all.every(({ name, bytes, bits, text: drawn }, i) =>
  name === "abc"[i] && bytes === text.length && bits! > 0 && bits === all[0].bits &&
  drawn!.length > 0 && drawn === all[0].text);
console.log(right ? "openapi-fetch, hey-api and swagger-typescript-api agree" : JSON.stringify(all));
