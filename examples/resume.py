"""Feeds a file to a session, and prints its strange lines. Needs nothing but Python 3.9.

    python3 resume.py FILE SESSION [THRESHOLD]

Every request states the offset at which its bytes belong. So it does not matter if a connection
breaks, the server restarts or this program is ended: it asks the session for its offset, and goes on
from that byte of the file. LMSERVE_URL and LMSERVE_KEY say where the server is, and with which key.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("LMSERVE_URL", "http://localhost:8080")
BATCH = 4096  # bytes of a request


def request(method, path, body=None, accept="application/json"):
    """Makes a request and gives the answer, which can be read as it comes."""
    headers = {"Accept": accept, "Content-Type": "application/octet-stream"}
    if "LMSERVE_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["LMSERVE_KEY"]
    if body is None:
        del headers["Content-Type"]
    return urllib.request.urlopen(
        urllib.request.Request(URL + path, body, headers, method=method), timeout=120)


def strange_lines(session, offset, text, threshold):
    """Feeds text at an offset, and gives the lines of it that are strange."""
    path = f"/v1/sessions/{session}/score?unit=line&offset={offset}&wait=30s"
    path += f"&learn=unflagged&threshold={threshold}"  # what is strange is not learnt
    with request("POST", path, text, "application/x-ndjson") as answer:
        for event in map(json.loads, answer):
            if event["type"] == "error":
                raise ConnectionError(event["problem"]["title"])
            if event["type"] == "line" and event["warm"] and event["p"] <= threshold:
                yield event


def main(file, session, threshold=0.001):
    with request("PUT", f"/v1/sessions/{session}") as answer:  # makes the session, or finds it
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
                    if line["ended"]:  # else the rest of the line is in the next batch
                        print(f"one line in {line['rank']}: {line['text']}", flush=True)
                offset += len(text)
            except (OSError, http.client.HTTPException) as err:
                # Lines of which the session was told and this program was not are not looked at
                # again; the Go client does that, too.
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
                    pass  # the server is not back yet: the same text is sent again, and refused
    print(f"up to byte {offset}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
