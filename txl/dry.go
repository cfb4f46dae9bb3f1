package txl

import "slices"

// The constants define the penalty of a sampler for repetitions. Suppose that the last m >= dryFrom
// bytes occurred earlier in the drawn text, followed by some token. Then the sampler subtracts Dry
// * dryBase^(m-dryFrom) from the token's logit. If there are several such places, the longest m
// counts. The method is DRY, "don't repeat yourself", by P. E. Weidmann (text-generation-webui,
// pull request 5677). Text before the drawn text does not count, because a model may copy from it.
const (
	dryBase = 1.3
	dryFrom = 12
)

// DryDefault is a strength at which drawn text rarely falls into a loop. DryMax is the maximum
// strength.
const (
	DryDefault = 0.8
	DryMax     = 10
)

type repeats struct {
	drawn []int32
	// lengths[i] is the number of tokens before drawn[i] that equal the last drawn tokens.
	lengths []int32
	powers  []float64 // dryBase^n for n = 0, 1, ...
	found   []repeat
}

type repeat struct {
	id      int32
	bytes   int
	logProb float32 // log-probability without the penalty
}

func (r *repeats) add(id int32) {
	r.drawn, r.lengths = append(r.drawn, id), append(r.lengths, 0)
	for i := len(r.drawn) - 1; i > 0; i-- {
		length := r.lengths[i-1] + 1
		if r.drawn[i-1] != id {
			length = 0
		}
		r.lengths[i] = length
	}
}

// penalize subtracts the penalties from log-probabilities [V]. restore reverts the change. size is
// the number of bytes of a token.
func (r *repeats) penalize(logProbs []float32, strength float64, size int) {
	r.found = r.found[:0]
	for i, length := range r.lengths {
		bytes, id := int(length)*size, r.drawn[i]
		if bytes < dryFrom {
			continue
		}
		at := slices.IndexFunc(r.found, func(f repeat) bool { return f.id == id })
		if at < 0 {
			r.found = append(r.found, repeat{id, bytes, logProbs[id]})
			continue
		}
		r.found[at].bytes = max(r.found[at].bytes, bytes)
	}
	for _, f := range r.found {
		logProbs[f.id] -= float32(strength * r.power(f.bytes-dryFrom))
	}
}

func (r *repeats) restore(logProbs []float32) {
	for _, f := range r.found {
		logProbs[f.id] = f.logProb
	}
}

// power returns dryBase^n. It uses only multiplications, so that all machines give the same bits.
func (r *repeats) power(n int) float64 {
	if len(r.powers) == 0 {
		r.powers = append(r.powers, 1)
	}
	for len(r.powers) <= n {
		r.powers = append(r.powers, r.powers[len(r.powers)-1]*dryBase)
	}
	return r.powers[n]
}
