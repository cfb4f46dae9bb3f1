// Completes text with OpenAI's own client, from a model that has adapted to a session.
//
//     npm install openai
//     node openai.mjs SESSION PROMPT
//
// LMSERVE_URL and LMSERVE_KEY set the server and the key.
import OpenAI from "openai";

const [session, prompt] = process.argv.slice(2);
const client = new OpenAI({
  baseURL: `${process.env.LMSERVE_URL ?? "http://localhost:8080"}/v1`,
  apiKey: process.env.LMSERVE_KEY ?? "none", // a server without keys ignores it
});

const models = await client.models.list();
const stream = await client.completions.create(
  { model: models.data[0].id, prompt, max_tokens: 80, temperature: 0, stop: "\n", stream: true },
  { headers: { "X-Session-ID": session } }, // the session to continue; optional
);
process.stdout.write(prompt);
for await (const event of stream) process.stdout.write(event.choices[0].text);
process.stdout.write("\n");
