package stream

import (
	"math"
	"slices"
)

// This file mixes a stream's companion with the adaptive network alone, or with the adaptive and
// the static network. Scores, samples and reported distributions come from the mixture.

// distribution writes to logProbs [V] the log-probabilities of the token after the given row of the
// chunk. The caller must have set w.along. If the stream has a cache, w.targets must contain the
// targets of the earlier rows.
func (w *Worker) distribution(s *Stream, row int, logProbs []float32) {
	if s.Companion != nil {
		w.ofNetworks(s, row)
		w.counts.Distribution(w.along.companion, w.networks, logProbs)
		return
	}
	w.ofModel(s, row, logProbs)
}

// ofModel writes to logProbs [V] the distribution of the token after the given row of the chunk,
// without the companion.
func (w *Worker) ofModel(s *Stream, row int, logProbs []float32) {
	if w.model.Uniform {
		fill(logProbs, -w.uniform())
		return
	}
	w.seg.LogProbs(row, 0, logProbs)
	w.orUniform(s, logProbs)
	if s.Cache != nil {
		w.mixAllCached(s, row, logProbs)
	}
}

// orUniform replaces a distribution that is not finite by the uniform distribution. Diverged fast
// weights may produce NaN, which counts and caches would keep.
func (w *Worker) orUniform(s *Stream, logProbs []float32) {
	if s.mayDiverge() && !(slices.Max(logProbs) > float32(math.Inf(-1))) {
		fill(logProbs, -w.uniform())
	}
}

// uniform returns the cost of a token, in nats, if all tokens are equally likely.
func (w *Worker) uniform() float32 { return float32(math.Log(float64(w.model.LM.Config.Vocab))) }

func fill(numbers []float32, with float32) {
	for i := range numbers {
		numbers[i] = with
	}
}

func (w *Worker) ofNetworks(s *Stream, row int) {
	w.ofModel(s, row, w.networks[0])
	if s.Companion.Settings().Networks > 1 {
		w.base.LogProbs(row, 0, w.networks[1])
	}
}

func (w *Worker) room() []float32 {
	if w.logProbs == nil {
		w.logProbs = make([]float32, w.model.LM.Config.Vocab)
	}
	return w.logProbs
}

func (w *Worker) baseRoom() []float32 {
	if w.baseLogProbs == nil {
		w.baseLogProbs = make([]float32, w.model.LM.Config.Vocab)
	}
	return w.baseLogProbs
}

// mixed computes the losses of the scored tokens from:to under the mixture and under the network
// alone. It also feeds these tokens to the companion.
func (w *Worker) mixed(s *Stream, from, to int, scores *Scores) {
	for i := from; i < to; i++ {
		w.ofNetworks(s, len(s.Pending)+i)
		id := w.tokens.IDs[i]
		scores.Network[i] = -w.networks[0][id]
		scores.NLL[i] = w.counts.Score(w.along.companion, w.networks, byte(id))
		if s.slopes != nil {
			slopes := w.counts.Slopes()
			w.slopes = append(w.slopes, slopes[:]...)
		}
	}
}
