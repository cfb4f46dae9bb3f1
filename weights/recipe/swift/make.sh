#!/bin/sh
# Makes the embedded model for streams: make.sh LMSERVE TEXT MORE VALID WORK. LMSERVE is the program;
# TEXT, MORE and VALID are folders of text, with a folder in them for each domain. Each step is a run
# of lmserve, and leaves its model, checkpoints, metrics and report in WORK. After an interruption the
# same command continues.
set -eu
lmserve=$1 text=$2 more=$3 valid=$4 work=$5
recipe=$(dirname "$0")/..
mkdir -p "$work"
[ -e "$work/text" ] || "$recipe/pieces.py" "$text" "$more" "$work/text"

# run STEP FLAGS... runs lmserve train, unless the model of the step is there already.
run() {
	step=$1
	shift
	[ -e "$work/$step.safetensors" ] || "$lmserve" train --name lmserve-swift --data "$text" --valid "$valid" --valid-bytes 8192 \
		--checkpoints "$work/$step" --checkpoint-every 250 --resume --report "$work/$step.html" --out "$work/$step.safetensors" "$@"
}

# The slow weights learn with companions of counts from the start. So this small network does not
# learn what the counts already predict.
run first --phase pretrain --config swift --balance 0.5 --batch 32 --steps 13000 --warmup 300 --lr 0.01 \
	--companion-share 0.5 --companion-bytes 524288 --valid-every 2000 --store float32

# The same with the text in another order, and mostly from the mixture's loss, because sessions use
# the mixture.
run second --phase pretrain --init "$work/first.safetensors" --balance 0.5 --batch 32 --steps 13000 --warmup 300 --lr 0.006 \
	--seed 9 --companion-share 0.8 --companion-bytes 524288 --valid-every 2000 --store float32

# The meta-learners of the two weights from which the backward pass needs no more than the last
# feed-forward layer. The static model is not mixed in: its pass would cost a third more.
run meta --phase meta --init "$work/second.safetensors" --companion --companion-alone --chunk 128 \
	--branches 'layers.1.pos_ff.CoreNet.3.*,crit.out_layers.0.bias' --gammas 0.997 --meta-steps 2000 --meta-lr 0.003 --seed 2 \
	--valid-every 1000 --store bf16

# The slow weights read TEXT and three parts of MORE at a constant rate. The average of their
# checkpoints and of the weights before takes the place of a falling rate.
for domain in "$text"/* "$work"/text/pieces-[245]/*; do
	mkdir -p "$work/both/$(basename "$domain")"
	for document in "$domain"/*; do
		case $document in
		"$text"/*) name=$(basename "$document") ;;
		*-more.txt) name=r$(basename "$(dirname "$domain")" | cut -c8-)-$(basename "$document") ;;
		*) continue ;;
		esac
		ln -sf "$(realpath "$document")" "$work/both/$(basename "$domain")/$name"
	done
done
set -- .3:"$work/meta.safetensors"
for steps in $(seq 2000 500 5000); do
	run "further-$steps" --data "$work/both" --phase pretrain --init "$work/meta.safetensors" --batch 32 --steps "$steps" --warmup 50 \
		--lr 0.002 --schedule constant --seed 21 --companion-share 0.8 --companion-bytes 524288 --valid-every -1 \
		--checkpoints "$work/further" --checkpoint-every 500
	kept=$work/further/$steps.safetensors
	[ -e "$kept" ] || { cp "$work/further/last.safetensors" "$kept.part" && mv "$kept.part" "$kept"; }
	set -- "$@" .1:"$kept"
done
[ -e "$work/average.safetensors" ] || "$recipe/average.py" "$work/meta.safetensors" "$work/average.safetensors" "$@"

# The meta-learners follow them, with longer pieces of text, and with all code as one domain.
run last --data "$work/text/domains" --phase meta --init "$work/average.safetensors" --companion --companion-alone --chunk 128 \
	--meta-steps 2000 --meta-lr 0.001 --seed 7 --valid-every -1 --store bf16

# Statistics of gradients for the method dynamic-rms, and the settings of dynamic-sgd. The others have
# their usual ones.
"$lmserve" tune --model "$work/last.safetensors" --methods dynamic-sgd --data "$valid" --statistics "$text" --max-bytes 16384 --out "$work/swift.safetensors.zst"
