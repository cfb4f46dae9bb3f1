#!/bin/sh
# Makes a default model and its measurements from slow weights: publish.sh LMSERVE SLOW TEXT WORK.
# SLOW is a model of `lmserve train --phase pretrain`, TEXT the folder that pieces.py made, and WORK
# a folder for the results: default.safetensors.zst, and a file of JSON for each measurement.
# VALID, TEST, TEST2 and MORE name folders of text. tables.py prints the tables of the documentation.
set -eu
lmserve=$1 slow=$2 text=$3 work=$4
mkdir -p "$work"

# The meta-learners follow the slow weights.
[ -e "$work/last.safetensors" ] || "$lmserve" train --name lmserve-default --data "$text/domains" --valid "$VALID" \
	--phase meta --init "$slow" --config default --companion --companion-alone --chunk 128 --meta-steps 2000 --meta-lr 0.001 \
	--seed 7 --valid-bytes 8192 --valid-every -1 --store bf16 --checkpoints "$work/last" --checkpoint-every 100 --resume \
	--report "$work/last.html" --out "$work/last.safetensors"

# The statistics of gradients for the method dynamic-rms.
[ -e "$work/default.safetensors.zst" ] || "$lmserve" tune --model "$work/last.safetensors" --methods none \
	--statistics "$text/pieces-2" --out "$work/default.safetensors.zst"

# measure NAME TEXT FLAGS... writes NAME.json.
measure() {
	[ -e "$work/$1.json" ] && return
	name=$1 data=$2
	shift 2
	"$lmserve" eval --model "$work/default.safetensors.zst" --data "$data" --json "$@" > "$work/$name.json.part"
	mv "$work/$name.json.part" "$work/$name.json"
}
all=static,sparse-meta,static+companion,sparse-meta+companion
counts=static+companion,sparse-meta+companion
measure short "$VALID" --max-bytes 8192 --methods $counts
measure test "$TEST" --max-bytes 40000 --methods $all
measure test2 "$TEST2" --max-bytes 40000 --methods $counts

# Long sessions, of documents that pieces.py leaves out.
mkdir -p "$work/unread"
for name in $(sed -n '/^UNREAD/,/^"""/p' "$(dirname "$0")/pieces.py" | grep -o '[a-z-]*/[a-z0-9-]*'); do
	ln -sf "$(realpath "$MORE/$name.txt")" "$work/unread/$(echo "$name" | tr / -).txt"
done
measure start "$work/unread" --max-bytes 100000 --methods $counts
measure long "$work/unread" --max-bytes 400000 --methods $counts
