#!/bin/sh
# Prints the strange lines of a stream as they arrive.
#
#     journalctl -f | sh watch.sh [SESSION [THRESHOLD]]
#
# A line is strange if its probability is at most THRESHOLD (1/1000). Strange lines are not learned,
# so that they stay strange. LMSERVE_URL and LMSERVE_KEY set the server and the key.
set -eu
url=${LMSERVE_URL:-http://localhost:8080}
session=${1:-watch-sh}
threshold=${2:-0.001}

# Creates the session, or finds it: then it continues with everything it has learned.
curl -fsS -o /dev/null -X PUT "$url/v1/sessions/$session" \
  ${LMSERVE_KEY:+-H "Authorization: Bearer $LMSERVE_KEY"}

# `-T .` sends input while answers arrive, and `-#` keeps curl 7 from showing progress. The server
# answers with a JSON object for each line; "learnt":false marks a strange line, which the session
# does not learn.
how="unit=line&learn=unflagged&threshold=$threshold"
curl -fsSN -# -X POST -T . "$url/v1/sessions/$session/score?$how" \
  -H 'Content-Type: application/octet-stream' -H 'Accept: application/x-ndjson' -H 'Expect:' \
  ${LMSERVE_KEY:+-H "Authorization: Bearer $LMSERVE_KEY"} |
  sed -u -n -E -e '/"learnt":false/s/.*"rank":([0-9]*).*"text":"(([^"\\]|\\.)*)".*/one line in \1: \2/p' \
    -e '/^\{"type":"error"/p'
