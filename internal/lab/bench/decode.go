package bench

import (
	"fmt"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// decodeBytes returns the number of bytes that the computer must read to sample one token. It
// counts each matrix of the slow weights, all fast weights, and the keys and values of each layer.
// It also counts the position keys r (the keys of relative positions). Half of the chunk is assumed
// to be sampled.
func (b *bench) decodeBytes() float64 {
	s := b.segment()
	elements := s.NLayer * 3 * s.heads() * (s.memory + (s.rows+1)/2)
	for _, t := range b.model.LM.Layout.Tensors {
		if t.IsMatrix() {
			elements += t.Size
		}
	}
	return 4 * float64(elements+b.model.ArenaSize())
}

// decode samples whole chunks after an adapted stream. It reports the median time of a token, and
// the mean time. The mean includes the cost of starting a new chunk.
func (b *bench) decode() {
	if b.hasCompanion() {
		b.companionToken()
	}
	bytes := b.decodeBytes()
	t := task{section: Decode, shape: fmt.Sprintf("%.1f MB", bytes/1e6), work: work{reads: bytes},
		amount: 1, unit: tokens}
	if bytes < float64(cpuid.CPU.Cache.L3) {
		t.note = "fits the cache"
	}
	for _, threads := range b.threadCounts() {
		var times []float64
		r := b.beside(threads, "decoded token", func() { times = b.generate(threads) })
		if b.ctx.Err() != nil {
			return
		}
		mean := 0.0
		for _, s := range times {
			mean += s / float64(len(times))
		}
		t.what = "decoded token"
		b.add(t, threads, median(times), r)
		t.what = "decoded token, mean"
		b.add(t, threads, mean, r)
	}
}

func (b *bench) generate(threads int) (times []float64) {
	w := stream.NewWorker(b.model, threads)
	defer w.Close()
	s := b.startedStream(w, 1)
	sampler := txl.NewSampler(txl.Sampling{Temperature: 1}, b.model.LM.Config.Vocab)
	start := time.Now()
	last, left := start, b.Chunk
	w.Generate(s.Frozen(), sampler, func(int32, float32) bool {
		now := time.Now()
		times = append(times, max(now.Sub(last), 1).Seconds())
		last = now
		if left--; left == 0 && now.Sub(start).Seconds() < b.Seconds {
			left = b.Chunk
		}
		return left > 0 && b.ctx.Err() == nil
	})
	return times
}

// startedStream returns a stream with a full memory, adaptive if the model can adapt.
func (b *bench) startedStream(w *stream.Worker, seed uint64) *stream.Stream {
	set := stream.Defaults(b.model)
	set.Chunk, set.Seed = b.Chunk, seed
	s := stream.New(b.model, set)
	chunk := b.text(b.Chunk)
	for s.Memory.Len < b.model.LM.Config.MemLen && b.ctx.Err() == nil {
		w.Feed(s, chunk, nil)
	}
	return s
}
