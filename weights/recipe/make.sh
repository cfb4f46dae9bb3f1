#!/bin/sh
# Makes the embedded model: make.sh LMSERVE TEXT VALID WORK. Each step is a run of lmserve and leaves its model, checkpoints, metrics and report in
# WORK; after an interruption the same command goes on where it was. TEXT and VALID are folders of text, with a folder in them for each domain.
set -eu
lmserve=$1 text=$2 valid=$3 work=$4
recipe=$(dirname "$0")
mkdir -p "$work"

# What the slow weights never read: the meta-learners need text that is new to them.
unseen=--hold-out=code-asm,code-lua,code-shell,poetry-zh-json

# run STEP FLAGS...: a run of lmserve train, unless its model is there.
run() {
	step=$1
	shift
	[ -e "$work/$step.safetensors" ] || "$lmserve" train --name lmserve-default --data "$text" --valid "$valid" \
		--checkpoints "$work/$step" --checkpoint-every 100 --resume --report "$work/$step.html" --store float32 --out "$work/$step.safetensors" "$@"
}

# Short segments are read faster; the learning rate stays.
run short $unseen --phase pretrain --config "$recipe/short.json" --balance 0.5 --batch 32 --steps 2433 --warmup 100 --schedule constant --valid-bytes 8192

# Longer ones; the learning rate comes down.
run long $unseen --phase pretrain --init "$work/short.safetensors" --config "$recipe/long.json" --balance 0.5 --batch 16 --steps 2300 --warmup 20 --valid-bytes 8192

# The same again, from a smaller one.
run longer $unseen --phase pretrain --init "$work/long.safetensors" --balance 0.5 --batch 16 --steps 2000 --warmup 20 --lr 0.002 --valid-bytes 8192

# The meta-learners, with the memory of serving.
run meta $unseen --phase meta --init "$work/longer.safetensors" --config default --meta-steps 5000 --valid-bytes 16384 --valid-every 1000 --store bf16

# Half of that text was from the few domains held out. Now all domains are alike: where the slow weights know a text well, as they do prose, g has
# to learn to leave them as they are.
run prose --phase meta --init "$work/meta.safetensors" --meta-steps 2000 --meta-lr 0.001 --seed 3 --valid-bytes 16384 --valid-every -1 --store bf16
run more --phase meta --init "$work/prose.safetensors" --meta-steps 4000 --meta-lr 0.001 --seed 4 --valid-bytes 16384 --valid-every -1 --store bf16

# What the rival methods serve with, and the statistics that one of them needs.
"$lmserve" tune --model "$work/more.safetensors" --data "$valid" --statistics "$text" --out "$work/default.safetensors.zst"
