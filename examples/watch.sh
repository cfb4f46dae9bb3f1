#!/bin/sh
# Prints the lines of a stream that are strange for this stream, as they come.
#
#     journalctl -f | sh watch.sh [SESSION [THRESHOLD]]
#
# A line is strange whose probability is at most THRESHOLD (1/1000). Strange lines are not learnt,
# so that they stay strange. LMSERVE_URL and LMSERVE_KEY say where the server is, and with which key.
set -eu
url=${LMSERVE_URL:-http://localhost:8080}
session=${1:-watch-sh}
threshold=${2:-0.001}

# A session of this name is made, or found: then it goes on with what it has learnt.
curl -fsS -o /dev/null -X PUT "$url/v1/sessions/$session" \
  ${LMSERVE_KEY:+-H "Authorization: Bearer $LMSERVE_KEY"}

# `-T .` sends what comes in while answers come back, and `-#` keeps curl 7 from showing how far it
# is. The server answers with a JSON object for each line; "learnt":false says that the session does
# not learn from it, as it is strange.
how="unit=line&learn=unflagged&threshold=$threshold"
curl -fsSN -# -X POST -T . "$url/v1/sessions/$session/score?$how" \
  -H 'Content-Type: application/octet-stream' -H 'Accept: application/x-ndjson' -H 'Expect:' \
  ${LMSERVE_KEY:+-H "Authorization: Bearer $LMSERVE_KEY"} |
  sed -u -n -E -e '/"learnt":false/s/.*"rank":([0-9]*).*"text":"(([^"\\]|\\.)*)".*/one line in \1: \2/p' \
    -e '/^\{"type":"error"/p'
