#!/bin/sh
# Makes the model of words: make.sh LMSERVE TEXT VALID WORK. LMSERVE is the program; TEXT is a
# folder with the folders books-en, speeches and wiki-markup (pages of a dump of Wikipedia), VALID
# one with books-en, speeches and wikitext. Each step is a run of lmserve, and leaves its model,
# checkpoints, metrics and report in WORK. After an interruption the same command continues.
set -eu
lmserve=$1 text=$2 valid=$3 work=$4
recipe=$(dirname "$0")
mkdir -p "$work/text/books-en" "$work/text/speeches" "$work/text/wiki" "$work/valid"

# The text: books and speeches as they are, Wikipedia without its markup and in WikiText's manner.
cp "$text"/books-en/*.txt "$work/text/books-en"
cp "$text"/speeches/*.txt "$work/text/speeches"
for part in "$text"/wiki-markup/*.txt; do
	python3 "$recipe/../../../tools/wikitext.py" "$part" > "$work/text/wiki/$(basename "$part")"
done
for domain in books-en speeches wikitext; do
	mkdir -p "$work/valid/$domain"
	cp "$valid/$domain"/*.txt "$work/valid/$domain"
done

# run STEP FLAGS... runs lmserve train, unless the model of the step is there already.
run() {
	step=$1
	shift
	[ -e "$work/$step.safetensors" ] || "$lmserve" train --name lmserve-words --data "$work/text" --valid "$work/valid" \
		--checkpoints "$work/$step" --checkpoint-every 250 --resume --report "$work/$step.html" --out "$work/$step.safetensors" "$@"
}

# The slow weights, with tables of the softmax's own. The learning rate is half of the usual: a run
# at .003 with ReLU ended with four of six feed-forward layers without any gradient.
run static --phase pretrain --config "$recipe/words.json" --tokenizer words --vocab-size 32768 --batch 16 --lr 0.0015 \
	--steps 4500 --warmup 200 --balance 0.4 --valid-every 500

# The statistics of gradients, for the inputs of the meta-learners and for the method dynamic-rms.
[ -e "$work/measured.safetensors" ] ||
	"$lmserve" tune --model "$work/static.safetensors" --methods none --statistics "$work/text" --out "$work/measured.safetensors"

# The meta-learners of the softmax's weights and of the last layer's feed-forward, in three banks. What
# is learnt late counts here, so the validation is on long texts.
mkdir -p "$work/long/books-en" "$work/long/wikitext"
cp "$valid/books-en/age-of-innocence.txt" "$work/long/books-en"
cp "$valid"/wikitext/*.txt "$work/long/wikitext"
run meta --phase meta --init "$work/measured.safetensors" --branches 'crit.*,layers.5.pos_ff.CoreNet.*' --gammas 0.8,0.98,0.9995 \
	--chunk 100 --normalize --meta-steps 1000 --valid "$work/long" --valid-every 250 --valid-bytes 131072

# Chunks of 50. The validation finds that no step of these improves the meta-learners, and keeps them.
run chunk50 --phase meta --init "$work/meta.safetensors" --chunk 50 --meta-lr 0.001 --meta-steps 150 \
	--valid "$work/long" --valid-every 75 --valid-bytes 32768

# The settings of the other methods of adaptation.
"$lmserve" tune --model "$work/chunk50.safetensors" --data "$work/valid" --max-bytes 16384 --out "$work/words.safetensors.zst"
