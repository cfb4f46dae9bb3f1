// Suggests the next line after each line that is typed. The model learns from every line, so the
// suggestions adopt the writer's words. Needs node 18.
//
//     node complete.mjs SESSION < lines
//
// LMSERVE_URL and LMSERVE_KEY set the server and the key.
import { createInterface } from "node:readline";

const url = process.env.LMSERVE_URL ?? "http://localhost:8080";
const session = process.argv[2] ?? "complete-mjs";

// request sends an object as JSON, or a string as plain text.
async function request(method, path, body) {
  const headers = {};
  if (process.env.LMSERVE_KEY) headers.Authorization = `Bearer ${process.env.LMSERVE_KEY}`;
  if (typeof body === "string") headers["Content-Type"] = "text/plain";
  if (typeof body === "object") {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  const answer = await fetch(url + path, { method, headers, body });
  if (!answer.ok) {
    const problem = await answer.json(); // RFC 9457
    throw new Error(`${problem.title}: ${problem.detail ?? ""}`);
  }
  return answer;
}

// pieces returns the text of a streamed completion as it grows: server-sent events with one line of
// data each.
async function* pieces(answer) {
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    const lines = text.split("\n");
    text = lines.pop(); // an unfinished line
    for (const line of lines.filter((line) => line.startsWith("data: "))) {
      const event = JSON.parse(line.slice("data: ".length));
      if (event.type === "error") throw new Error(event.problem.title);
      if (event.type === "piece") yield event.text;
    }
  }
}

await request("PUT", `/v1/sessions/${session}`); // creates or finds the session
for await (const line of createInterface({ input: process.stdin })) {
  await request("POST", `/v1/sessions/${session}/score`, line + "\n");
  const answer = await request("POST", `/v1/sessions/${session}/complete`, {
    max_tokens: 60,
    temperature: 0,
    stop: "\n",
    stream: true,
  });
  process.stdout.write(`${line}\n  next: `);
  for await (const piece of pieces(answer)) process.stdout.write(piece);
  process.stdout.write("\n");
}
