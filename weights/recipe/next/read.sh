#!/bin/sh
# Goes on with the training of the default model: read.sh LMSERVE TRAIN MORE VALID WORK STEP STEPS.
# LMSERVE is the program; TRAIN, MORE and VALID are folders of text with a folder for each domain.
# STEP, 1 to 4, reads a quarter of the text, from the weights of the step before, which packaging/models
# keeps outside the Go module: its size is limited.
# After an interruption the same command goes on where it was; a larger STEPS reads more.
set -eu
lmserve=$1 train=$2 more=$3 valid=$4 work=$5 step=$6 steps=$7
next=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"

[ -e "$work/text/pieces-4" ] || "$next/pieces.py" "$train" "$more" "$work/text"

before=$next/../../../packaging/models/read-$((step - 1)).safetensors.zst
[ "$step" != 1 ] || before=$next/../../default.safetensors.zst

exec "$lmserve" train --name lmserve-default --phase pretrain --data "$work/text/pieces-$step" --valid "$valid" \
	--init "$before" --config "$next/../long.json" --checkpoints "$work/read-$step" --checkpoint-every 100 --resume \
	--batch 32 --steps "$steps" --warmup 60 --lr 0.0013 --schedule constant --seed $((20 + step)) --companion-share 0.6 \
	--valid-bytes 8192 --valid-every -1 --report "$work/read-$step.html" --out "$work/read-$step.safetensors.zst"
