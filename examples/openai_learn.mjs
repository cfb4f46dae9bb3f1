// Makes a session learn a text line by line with OpenAI's own client. After half of each line it
// prints the session's suggestion, if that is likely enough.
//
//     npm install openai
//     node openai_learn.mjs SESSION < FILE
//
// LMSERVE_URL and LMSERVE_KEY set the server and the key.
import { createInterface } from "node:readline";
import OpenAI from "openai";

const session = process.argv[2];
const client = new OpenAI({
  baseURL: `${process.env.LMSERVE_URL ?? "http://localhost:8080"}/v1`,
  apiKey: process.env.LMSERVE_KEY ?? "none", // a server without keys ignores it
});
const named = { headers: { "X-Session-ID": session } };

// A prompt is learned once, even if the client repeats a request after a lost answer: the session
// accepts the prompt only at the stated offset.
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

let { offset } = await client.put(`/sessions/${session}`, { body: {} }); // creates or finds it
for await (const line of createInterface({ input: process.stdin })) {
  const prompt = line.slice(0, line.length / 2);
  const request = { prompt, suggest: { min_probability: 0.6 } };
  const sure = await client.completions.create(request, named);
  if (sure.choices[0].text) console.log(`${prompt}[${sure.choices[0].text}]`);
  offset = await learn(`${line}\n`, offset);
}
