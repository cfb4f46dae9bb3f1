// OpenAI's own client against a running lmserve. BASE_URL is the server's, KEY a valid key, and
// SESSION the id of a session that has learnt something.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const { BASE_URL, KEY, SESSION } = process.env;
const options = { baseURL: `${BASE_URL}/v1`, apiKey: KEY, maxRetries: 0 };
const client = new OpenAI(options);
const listed = [];
for await (const model of client.models.list()) listed.push(model);
const model = listed[0].id;

/** Collects a streamed completion: the texts by index, and what the last event tells. */
async function collect(request, more) {
  const texts = [];
  let usage = null;
  for await (const event of await client.completions.create({ ...request, stream: true }, more)) {
    usage = event.usage ?? usage;
    for (const choice of event.choices) {
      const text = (texts[choice.index] ??= { text: "", finish_reason: null });
      text.text += choice.text;
      text.finish_reason = choice.finish_reason ?? text.finish_reason;
    }
  }
  return { texts, usage };
}

const pick = (choices) => choices.map(({ text, finish_reason }) => ({ text, finish_reason }));

test("models are listed and found", async () => {
  assert.equal(listed.length, 1);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("gpt-4"), (err) => {
    assert.ok(err instanceof OpenAI.NotFoundError);
    assert.deepEqual([err.status, err.code, err.param], [404, "model_not_found", "model"]);
    return true;
  });
});

test("a completion, whole and streamed", async () => {
  const request = { model, prompt: ["GET /", "añb"], n: 2, max_tokens: 24, temperature: 0.7, seed: 5 };
  const whole = await client.completions.create({ ...request, user: "somebody", suffix: null });
  assert.equal(whole.object, "text_completion");
  assert.deepEqual(whole.choices.map((c) => c.index), [0, 1, 2, 3]);
  assert.equal(whole.usage.completion_tokens, 4 * 24);
  const streamed = await collect({ ...request, stream_options: { include_usage: true } });
  assert.deepEqual(streamed.texts, pick(whole.choices));
  assert.deepEqual(streamed.usage, whole.usage);
  assert.equal((await collect(request)).usage, null);
});

test("a stop string ends the text", async () => {
  const request = { model, prompt: "GET /", max_tokens: 60, seed: 3 };
  const [{ text }] = (await client.completions.create(request)).choices;
  const [stop] = text.match(/[!-~]/);
  const [stopped] = (await client.completions.create({ ...request, stop: [stop, "no such text"] })).choices;
  assert.equal(stopped.text, text.slice(0, text.indexOf(stop)));
  assert.equal(stopped.finish_reason, "stop");
  const [behind] = (await client.completions.create({ ...request, suffix: stop + "\nmore" })).choices;
  assert.equal(behind.text, stopped.text);
});

test("a prompt is scored", async () => {
  const prompt = "Which bird?\n";
  for (const form of [prompt, [...Buffer.from(prompt)]]) {
    const request = { model, prompt: form, echo: true, logprobs: 2, max_tokens: 0, temperature: 0 };
    const [{ text, logprobs }] = (await client.completions.create(request)).choices;
    assert.equal(text, prompt);
    assert.equal(logprobs.tokens.join(""), prompt);
    assert.equal(logprobs.token_logprobs[0], null);
    assert.equal(logprobs.top_logprobs[0], null);
    logprobs.tokens.slice(1).forEach((token, i) => {
      const own = logprobs.token_logprobs[i + 1];
      const top = logprobs.top_logprobs[i + 1];
      assert.ok(own < 0);
      assert.equal(top[token], own);
      assert.ok(Object.keys(top).length === 2 || Object.keys(top).length === 3);
      assert.equal(logprobs.text_offset[i + 1], i + 1);
    });
  }
});

test("a session is continued, by header and by user", async () => {
  const request = { model, prompt: "\n", max_tokens: 20, temperature: 0 };
  const header = { headers: { "X-Session-ID": SESSION } };
  const { data, response } = await client.completions.create(request, header).withResponse();
  assert.equal(response.headers.get("X-Session-ID"), SESSION);
  assert.deepEqual(pick((await client.completions.create({ ...request, user: SESSION })).choices), pick(data.choices));
  assert.deepEqual((await collect(request, header)).texts, pick(data.choices));
  await assert.rejects(
    client.completions.create(request, { headers: { "X-Session-ID": "none" } }),
    (err) => err instanceof OpenAI.NotFoundError && err.code === "session_not_found",
  );
});

test("a session learns what is committed, once", async () => {
  const { id } = await client.post("/sessions", { body: {} });
  const header = { headers: { "X-Session-ID": id } };
  const lesson = { prompt: "The ship is called Halcyon.\n", max_tokens: 0, commit: "prompt", offset: 0 };
  assert.equal((await client.completions.create(lesson, header)).offset, 28);
  await assert.rejects(client.completions.create(lesson, header), (err) => {
    assert.ok(err instanceof OpenAI.ConflictError);
    assert.deepEqual([err.code, err.error.offset], ["offset_conflict", 28]);
    return true;
  });
  let offset = 28;
  for (const stream of [false, true]) {
    const request = { prompt: "The ", max_tokens: 8, seed: 1, user: id, offset, stream };
    const answer = await client.completions.create(request, { headers: { "X-Commit": "all" } });
    for await (const event of stream ? answer : [answer]) {
      assert.equal(event.offset !== undefined, event.choices[0].finish_reason !== null);
      offset = event.offset;
    }
    assert.equal((await client.get(`/sessions/${id}`)).offset, offset);
    assert.ok(offset > request.offset + "The ".length);
  }
});

test("a client that goes away commits nothing", async () => {
  const { id } = await client.post("/sessions", { body: {} });
  const request = { prompt: "x", max_tokens: 60000, commit: "all", user: id, stream: true };
  const stream = await client.completions.create(request);
  for await (const event of stream) {
    assert.equal(event.choices[0].finish_reason, null);
    break;
  }
  stream.controller.abort();
  const next = { prompt: "y", max_tokens: 0, commit: "prompt", user: id };
  assert.equal((await client.completions.create(next)).offset, 1); // waits for the other
});

test("choices are suggestions", async () => {
  const { id } = await client.post("/sessions", { body: { settings: { companion: true } } });
  const prompt = "GET /index.html 200\n".repeat(9);
  await client.completions.create({ prompt, max_tokens: 0, commit: "prompt", user: id });
  const request = { prompt: "GET /in", user: id, n: 3, suggest: {}, max_tokens: 256, temperature: 0.01, stop: ["\n"] };
  const { choices } = await client.completions.create(request);
  assert.ok(choices[0].probability > 0 && choices[0].text.startsWith("dex"));
  assert.deepEqual((await collect(request)).texts, pick(choices));
  const silent = await client.completions.create({ ...request, prompt: "qz", suggest: { min_probability: 1 } });
  assert.deepEqual(pick(silent.choices), [{ text: "", finish_reason: "stop" }]);
});

test("what is not here says what to use", async () => {
  const wrong = [
    () => client.chat.completions.create({ model, messages: [{ role: "user", content: "x" }] }),
    () => client.responses.create({ model, input: "x" }),
  ];
  for (const request of wrong) {
    await assert.rejects(request, (err) => {
      assert.ok(err instanceof OpenAI.NotFoundError);
      assert.match(err.message, /This server has no chat model; use \/v1\/completions\./);
      return true;
    });
  }
  await assert.rejects(client.embeddings.create({ model, input: "x" }), /has no embeddings/);
});

test("errors are those of the client", async () => {
  for (const [request, param] of [
    [{ model, prompt: "x", max_tokens: -1 }, "max_tokens"],
    [{ model, prompt: "x", frequency_penalty: 1 }, "frequency_penalty"],
    [{ model, prompt: "x", logit_bias: { 50256: -100 } }, "logit_bias"],
    [{ model, prompt: "x", presence_penalty: 0.5 }, "presence_penalty"],
    [{ model, prompt: "x", stream: true, logprobs: 100 }, "logprobs"],
  ]) {
    await assert.rejects(client.completions.create(request), (err) => {
      assert.ok(err instanceof OpenAI.BadRequestError);
      assert.deepEqual([err.status, err.type, err.param], [400, "invalid_request_error", param]);
      assert.match(err.message, /expected/);
      return true;
    });
  }
  const stranger = new OpenAI({ ...options, apiKey: "lms_no_key" });
  await assert.rejects(
    stranger.completions.create({ model, prompt: "x" }),
    (err) => err instanceof OpenAI.AuthenticationError && err.code === "invalid_api_key",
  );
});

test("a stream that is given up ends", async () => {
  const stream = await client.completions.create({ model, prompt: "x", max_tokens: 60000, stream: true });
  for await (const event of stream) {
    assert.equal(event.object, "text_completion");
    break;
  }
  stream.controller.abort();
  await client.completions.create({ model, prompt: "x", max_tokens: 1 });
});
