package stream

import (
	"math"
	"slices"
)

// This file puts a stream's companion beside its network, or beside two, the one that adapts and
// the static one: what is scored, sampled and told of is then their mixture.

// distribution writes the log-probabilities [V] of the token after a row of the chunk. w.targets
// are those of the rows before it, where the stream has a cache, and w.along is there.
func (w *Worker) distribution(s *Stream, row int, logProbs []float32) {
	if s.Companion != nil {
		w.ofNetworks(s, row)
		w.counts.Distribution(w.along.companion, w.networks, logProbs)
		return
	}
	w.ofModel(s, row, logProbs)
}

// ofModel is distribution without a companion.
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

// orUniform replaces what is no distribution, where fast weights have diverged: counts and caches
// would keep NaN.
func (w *Worker) orUniform(s *Stream, logProbs []float32) {
	if s.mayDiverge() && !(slices.Max(logProbs) > float32(math.Inf(-1))) {
		fill(logProbs, -w.uniform())
	}
}

// uniform is what a token costs, in nats, where all are equally likely.
func (w *Worker) uniform() float32 { return float32(math.Log(float64(w.model.LM.Config.Vocab))) }

func fill(numbers []float32, with float32) {
	for i := range numbers {
		numbers[i] = with
	}
}

// ofNetworks sets w.networks to the distributions of the token after a row of the chunk.
func (w *Worker) ofNetworks(s *Stream, row int) {
	w.ofModel(s, row, w.networks[0])
	if s.Companion.Settings().Networks > 1 {
		w.base.LogProbs(row, 0, w.networks[1])
	}
}

// room is a place for the distribution of a token [V].
func (w *Worker) room() []float32 {
	if w.logProbs == nil {
		w.logProbs = make([]float32, w.model.LM.Config.Vocab)
	}
	return w.logProbs
}

// baseRoom is a place for the distribution of a token under the static model [V].
func (w *Worker) baseRoom() []float32 {
	if w.baseLogProbs == nil {
		w.baseLogProbs = make([]float32, w.model.LM.Config.Vocab)
	}
	return w.baseLogProbs
}

// mixed writes the mixture's losses of some of the tokens that are scored, and the network's own,
// and takes the companion behind them.
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
