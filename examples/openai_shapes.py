"""Completes text in OpenAI's form, from a model that has adapted to a session. Needs only
Python 3.9; OpenAI's clients send the same requests.

    python3 openai_shapes.py SESSION PROMPT < text-to-learn-from

First, standard input is fed to the session. Completions do not change the session.
LMSERVE_URL and LMSERVE_KEY set the server and the key.
"""

import json
import os
import sys
import urllib.request

URL = os.environ.get("LMSERVE_URL", "http://localhost:8080")


def request(method, path, body=None, **headers):
    """Makes a request with bytes as the body, or anything else as JSON."""
    if "LMSERVE_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["LMSERVE_KEY"]
    kind = "application/octet-stream"
    if body is not None and not isinstance(body, bytes):
        body, kind = json.dumps(body).encode(), "application/json"
    if body is not None:
        headers["Content-Type"] = kind
    return urllib.request.urlopen(
        urllib.request.Request(URL + path, body, headers, method=method), timeout=600)


def main(session, prompt):
    request("PUT", f"/v1/sessions/{session}").close()  # creates or finds the session
    text = sys.stdin.buffer.read()
    if text:
        request("POST", f"/v1/sessions/{session}/score", text).close()
    with request("GET", "/v1/models") as answer:
        model = json.load(answer)["data"][0]["id"]

    # A streamed completion: events `data: {...}`, and `data: [DONE]` at the end. The header
    # X-Session-ID names the session to continue.
    asked = {"model": model, "prompt": prompt, "max_tokens": 80, "temperature": 0, "stop": "\n",
             "stream": True}
    with request("POST", "/v1/completions", asked, **{"X-Session-ID": session}) as answer:
        print(prompt, end="")
        for event in answer:
            if event.startswith(b"data: ") and not event.startswith(b"data: [DONE]"):
                print(json.loads(event[6:])["choices"][0]["text"], end="", flush=True)
    print()

    # The probability of the prompt itself: `echo` and `logprobs` without sampled text.
    asked = {"model": model, "prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 1}
    with request("POST", "/v1/completions", asked, **{"X-Session-ID": session}) as answer:
        scores = json.load(answer)["choices"][0]["logprobs"]["token_logprobs"][1:]
    if scores:
        print(f"the prompt: {-sum(scores) / len(scores):.2f} nats a byte")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
