#!/bin/sh
# Continues the training of the default model: read.sh LMSERVE TRAIN MORE VALID WORK READING STEPS.
# LMSERVE is the program; TRAIN, MORE and VALID are folders of text with a folder for each domain.
# READING is 1 (4,190 steps) or 2 (2,800 steps). After an interruption the same command continues.
# The second reading begins with soup.safetensors.zst, which average.py made (README.md). This file
# is in packaging/models, outside the Go module, whose size is limited.
set -eu
lmserve=$1 train=$2 more=$3 valid=$4 work=$5 reading=$6 steps=$7
next=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"

[ -e "$work/text/pieces-2" ] || "$next/pieces.py" "$train" "$more" "$work/text"

case $reading in
1) init=$next/../../default.safetensors.zst rate=0.0013 schedule=constant ;;
2) init=$next/../../../packaging/models/soup.safetensors.zst rate=0.001 schedule=cosine ;;
esac

exec "$lmserve" train --name lmserve-default --phase pretrain --data "$work/text/pieces-$reading" --valid "$valid" \
	--init "$init" --config "$next/../long.json" --checkpoints "$work/read-$reading" --checkpoint-every 100 --resume \
	--batch 32 --steps "$steps" --warmup 60 --lr $rate --schedule $schedule --seed $((20 + reading)) --companion-share 0.6 \
	--valid-bytes 8192 --valid-every -1 --report "$work/read-$reading.html" --out "$work/read-$reading.safetensors.zst"
