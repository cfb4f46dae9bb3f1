#!/bin/sh
# Makes the default model: make.sh LMSERVE TEXT MORE VALID WORK. LMSERVE is the program; TEXT, MORE
# and VALID are folders of text, with a folder in them for each domain. Each step is a run of
# lmserve, and leaves its model, checkpoints, metrics and report in WORK. After an interruption the
# same command continues.
set -eu
lmserve=$1 text=$2 more=$3 valid=$4 work=$5
recipe=$(dirname "$0")
mkdir -p "$work"

# Domains that the slow weights never read. The meta-learners need text that is new to the slow
# weights.
unseen=--hold-out=code-asm,code-lua,code-shell,poetry-zh-json

# The text of the readings after the first twelve steps.
[ -e "$work/text" ] || "$recipe/pieces.py" "$text" "$more" "$work/text"

# run STEP FLAGS... runs lmserve train, unless the model of the step is there already.
run() {
	step=$1
	shift
	[ -e "$work/$step.safetensors" ] || "$lmserve" train --name lmserve-default --data "$text" --valid "$valid" \
		--checkpoints "$work/$step" --checkpoint-every 100 --resume --report "$work/$step.html" --store float32 --out "$work/$step.safetensors" "$@"
}

# First the slow weights read short segments, which takes less time; the learning rate stays high.
run short $unseen --phase pretrain --config "$recipe/short.json" --balance 0.5 --batch 32 --steps 2433 --warmup 100 --schedule constant --valid-bytes 8192

# Then they read longer segments, and the learning rate comes down.
run long $unseen --phase pretrain --init "$work/short.safetensors" --config "$recipe/long.json" --balance 0.5 --batch 16 --steps 2300 --warmup 20 --seed 4 --valid-bytes 8192

# Then longer segments once more, of other text, from a smaller learning rate.
run longer $unseen --phase pretrain --init "$work/long.safetensors" --balance 0.5 --batch 16 --steps 2000 --warmup 20 --lr 0.002 --seed 5 --valid-bytes 8192

# The meta-learners are trained with as much memory as the model has when it serves.
run meta $unseen --phase meta --init "$work/longer.safetensors" --config default --meta-steps 5000 --valid-bytes 16384 --valid-every 1000 --store bf16

# Half of the text of the step before was from the few domains held out. Now all domains count
# alike: where the slow weights know a text well, as they do prose, the meta-learners have to learn
# to change little.
run prose --phase meta --init "$work/meta.safetensors" --meta-steps 2000 --meta-lr 0.001 --seed 3 --valid-bytes 16384 --valid-every -1 --store bf16
run more --phase meta --init "$work/prose.safetensors" --meta-steps 4000 --meta-lr 0.001 --seed 4 --valid-bytes 16384 --valid-every -1 --store bf16

# The settings of the other methods of adaptation, which the model keeps from here on.
[ -e "$work/tuned.safetensors" ] || {
	"$lmserve" tune --model "$work/more.safetensors" --data "$valid" --statistics "$text" --out "$work/tuning.safetensors"
	mv "$work/tuning.safetensors" "$work/tuned.safetensors"
}

# The slow weights continue with the text of all domains and with companions of counts. The mixture's
# loss has the larger weight.
run counts --phase pretrain --init "$work/tuned.safetensors" --config "$recipe/long.json" --balance 0.5 --batch 16 --steps 3600 \
	--warmup 60 --lr 0.0015 --seed 5 --companion-share 0.6 --valid-bytes 8192 --valid-every 600

# The meta-learners follow them, and learn from the loss of the mixture, too.
run beside --phase meta --init "$work/counts.safetensors" --config default --companion --meta-steps 2000 --meta-lr 0.001 --seed 6 \
	--valid-bytes 8192 --valid-every -1 --store bf16

# The slow weights read once more, all text alike now: much of the large domains is new to them.
run rest --phase pretrain --init "$work/beside.safetensors" --config "$recipe/long.json" --batch 16 --steps 2100 \
	--warmup 60 --lr 0.0012 --seed 7 --companion-share 0.6 --valid-bytes 8192 --valid-every -1

# The meta-learners follow them again, in chunks of 128, and learn to do without the static network in the
# mixture, whose pass takes a fifth of the time.
run alone --phase meta --init "$work/rest.safetensors" --config default --companion --companion-alone --chunk 128 \
	--meta-steps 1200 --meta-lr 0.001 --seed 6 --valid-bytes 8192 --valid-every -1 --store bf16

# The slow weights read all text once, whatever the steps before have read of it.
run all --phase pretrain --init "$work/alone.safetensors" --config "$recipe/long.json" --batch 32 --steps 7987 \
	--warmup 60 --lr 0.0015 --seed 11 --companion-share 0.6 --valid-bytes 8192 --valid-every -1

# The meta-learners follow them as before.
run after --phase meta --init "$work/all.safetensors" --config default --companion --companion-alone --chunk 128 \
	--meta-steps 1200 --meta-lr 0.001 --seed 6 --valid-bytes 8192 --valid-every -1 --store bf16

# The slow weights read a part of TEXT and MORE at a constant rate. The average of their checkpoints,
# and of the weights before, takes the place of a falling rate.
read_part() {
	name=$1 part=$2
	shift 2
	run "$name" --phase pretrain --data "$work/text/pieces-$part" --config "$recipe/long.json" --batch 32 --warmup 60 \
		--companion-share 0.6 --valid-bytes 8192 --valid-every -1 "$@"
}
average() {
	out=$1
	shift
	[ -e "$work/$out.safetensors" ] || "$recipe/average.py" "$work/after.safetensors" "$work/$out.safetensors" "$@"
}
set -- .35:"$work/after.safetensors"
for steps in $(seq 1000 100 4100) 4190; do
	read_part "further-$steps" 1 --init "$work/after.safetensors" --steps "$steps" --lr 0.0013 --schedule constant --seed 21 \
		--checkpoints "$work/further"
	kept=$work/further/$steps.safetensors
	[ -e "$kept" ] || { cp "$work/further/last.safetensors" "$kept.part" && mv "$kept.part" "$kept"; }
	set -- "$@" .02:"$kept"
done
average average "$@"

# They read seven more parts. After each, an average of new and old weights is better than both.
read_part again 2 --init "$work/average.safetensors" --steps 2800 --lr 0.001 --seed 22 --store bf16
average again-mix .6:"$work/again.safetensors" .2:"$work/average.safetensors" .2:"$work/after.safetensors"
read_part third 3 --init "$work/again-mix.safetensors" --steps 1400 --warmup 40 --lr 0.0008 --seed 23 --store bf16
average third-mix .6:"$work/third.safetensors" .4:"$work/again-mix.safetensors"
read_part fourth 4 --init "$work/third-mix.safetensors" --steps 3200 --warmup 40 --lr 0.001 --seed 24 --store bf16
average fourth-mix .4:"$work/fourth.safetensors" .4:"$work/third-mix.safetensors" .2:"$work/again-mix.safetensors"
read_part fifth 5 --init "$work/fourth-mix.safetensors" --steps 3200 --warmup 40 --lr 0.001 --seed 25 --store bf16
average fifth-mix .4:"$work/fifth.safetensors" .4:"$work/fourth-mix.safetensors" .2:"$work/third-mix.safetensors"
read_part sixth 6 --init "$work/fifth-mix.safetensors" --steps 5000 --warmup 40 --lr 0.001 --seed 26 --store bf16
average sixth-mix .4:"$work/sixth.safetensors" .4:"$work/fifth-mix.safetensors" .2:"$work/fourth-mix.safetensors"
read_part seventh 7 --init "$work/sixth-mix.safetensors" --steps 800 --warmup 40 --lr 0.0008 --seed 27 --store bf16
average seventh-mix .4:"$work/seventh.safetensors" .4:"$work/sixth-mix.safetensors" .2:"$work/fifth-mix.safetensors"
read_part eighth 8 --init "$work/seventh-mix.safetensors" --steps 4050 --warmup 40 --lr 0.001 --seed 28 --store bf16
average eighth-mix .35:"$work/eighth.safetensors" .3:"$work/seventh.safetensors" .35:"$work/sixth-mix.safetensors"

# The meta-learners follow them, with longer pieces of text, and with all code as one domain.
run last --phase meta --init "$work/eighth-mix.safetensors" --data "$work/text/domains" --config default --companion \
	--companion-alone --chunk 128 --meta-steps 2000 --meta-lr 0.001 --seed 7 --valid-bytes 8192 --valid-every -1 --store bf16

# Last come the statistics of gradients that the method dynamic-rms needs.
"$lmserve" tune --model "$work/last.safetensors" --methods none --statistics "$work/text/pieces-2" \
	--out "$work/default.safetensors.zst"
