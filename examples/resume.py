"""Feeds a file to a session, and prints its strange lines. Needs only Python 3.9.

    python3 resume.py FILE SESSION [THRESHOLD]

Every request states the offset of its bytes. After a broken connection, or a restart of the server
or of this program, it asks the session for its offset, and continues from that byte of the file.
LMSERVE_URL and LMSERVE_KEY set the server and the key.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("LMSERVE_URL", "http://localhost:8080")
BATCH = 4096  # bytes per request


def request(method, path, body=None, accept="application/json"):
    """Makes a request and returns the answer, which can be read as it arrives."""
    headers = {"Accept": accept, "Content-Type": "application/octet-stream"}
    if "LMSERVE_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["LMSERVE_KEY"]
    if body is None:
        del headers["Content-Type"]
    return urllib.request.urlopen(
        urllib.request.Request(URL + path, body, headers, method=method), timeout=120)


def strange_lines(session, offset, text, threshold):
    """Feeds text at an offset, and yields its strange lines."""
    path = f"/v1/sessions/{session}/score?unit=line&offset={offset}&wait=30s"
    path += f"&learn=unflagged&threshold={threshold}"  # strange lines are not learned
    with request("POST", path, text, "application/x-ndjson") as answer:
        for event in map(json.loads, answer):
            if event["type"] == "error":
                raise ConnectionError(event["problem"]["title"])
            if event["type"] == "line" and event["warm"] and event["p"] <= threshold:
                yield event


def main(file, session, threshold=0.001):
    with request("PUT", f"/v1/sessions/{session}") as answer:  # creates or finds the session
        offset = json.load(answer)["offset"]
    print(f"from byte {offset}", flush=True)
    with open(file, "rb") as stream:
        while True:
            stream.seek(offset)
            text = stream.read(BATCH)
            if not text:
                break
            try:
                for line in strange_lines(session, offset, text, float(threshold)):
                    if line["ended"]:  # otherwise the next batch has the rest
                        print(f"one line in {line['rank']}: {line['text']}", flush=True)
                offset += len(text)
            except (OSError, http.client.HTTPException) as err:
                # The session may have lines whose events were lost. This program does not print
                # them; the Go client recomputes their events.
                if isinstance(err, urllib.error.HTTPError) and err.code not in (429, 503):
                    problem = err.read().decode()  # RFC 9457
                    if "offset-conflict" not in problem and "session-busy" not in problem:
                        sys.exit(f"{err}: {problem}")
                print(f"trying again: {err}", file=sys.stderr)
                time.sleep(1)
                try:
                    with request("GET", f"/v1/sessions/{session}") as answer:
                        offset = json.load(answer)["offset"]
                except OSError:
                    pass  # still down: the text is sent again and, if it was taken, refused
    print(f"up to byte {offset}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
