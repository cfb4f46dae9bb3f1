// Has a session learn a text line by line with OpenAI's own client, and prints what the session
// suggests, where it is sure, once half of a line is typed.
//
//     npm install openai
//     node openai_learn.mjs SESSION < FILE
//
// LMSERVE_URL and LMSERVE_KEY say where the server is, and with which key.
import { createInterface } from "node:readline";
import OpenAI from "openai";

const session = process.argv[2];
const client = new OpenAI({
  baseURL: `${process.env.LMSERVE_URL ?? "http://localhost:8080"}/v1`,
  apiKey: process.env.LMSERVE_KEY ?? "none", // a server without keys looks at none
});
const named = { headers: { "X-Session-ID": session } };

// A prompt is learnt once, though the client sends a request again whose answer was lost: the
// session takes the prompt only where it is at the offset.
async function learn(prompt, offset) {
  const request = { prompt, max_tokens: 0, commit: "prompt", offset };
  try {
    return (await client.completions.create(request, named)).offset;
  } catch (err) {
    const learnt = offset + Buffer.byteLength(prompt);
    if (err instanceof OpenAI.ConflictError && err.error?.offset === learnt) return learnt;
    throw err;
  }
}

let { offset } = await client.put(`/sessions/${session}`, { body: {} }); // makes it, or finds it
for await (const line of createInterface({ input: process.stdin })) {
  const prompt = line.slice(0, line.length / 2);
  const request = { prompt, suggest: { min_probability: 0.6 } };
  const sure = await client.completions.create(request, named);
  if (sure.choices[0].text) console.log(`${prompt}[${sure.choices[0].text}]`);
  offset = await learn(`${line}\n`, offset);
}
