package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// BenchmarkAdaptiveChunk computes a chunk of an adaptive stream on one thread, like a worker of the
// server. It measures the embedded model and the paper's model.
func BenchmarkAdaptiveChunk(b *testing.B) {
	embedded, err := model.Default()
	require.NoError(b, err)
	c, err := txl.Named("enwik8-12l")
	require.NoError(b, err)
	paper, err := RandomModel("enwik8-12l", c)
	require.NoError(b, err)
	for _, m := range []*model.Model{embedded, paper} {
		b.Run(m.Name, func(b *testing.B) { benchmarkChunk(b, m) })
	}
}

func benchmarkChunk(b *testing.B, m *model.Model) {
	w := stream.NewWorker(m, 1)
	defer w.Close()
	s := stream.New(m, stream.Defaults(m))
	text := newLanguage(m.Tokenizer).text(m.Chunk)
	for s.Memory.Len < m.LM.Config.MemLen {
		w.Feed(s, text, nil)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		w.Feed(s, text, nil)
	}
}
