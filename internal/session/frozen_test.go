package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/stream"
)

func TestAFrozenStreamAndItsOriginDoNotMeetInAWorker(t *testing.T) {
	m := testModel(t)
	text := logText(100)
	r := CreateRequest{Seed: ptr(uint64(3))}
	s, _ := alone(t, m, r, text[:2*testChunk+3])
	before := s.Hash()
	w, other := stream.NewWorker(m, 1), stream.NewWorker(m, 1)
	defer w.Close()
	defer other.Close()
	first, second := freeze(s, m.LM.Config), freeze(s, m.LM.Config)
	w.Feed(first, []byte("xyz"), nil) // w holds its rows: as many as the others are about to have
	other.Feed(second, []byte("abc"), nil)
	plain := freeze(s, m.LM.Config)
	other.Feed(plain, []byte("abc"), nil)
	want := append([]float32(nil), other.Score(plain, []byte("de")).NLL...)
	require.Equal(t, want, append([]float32(nil), w.Score(second, []byte("de")).NLL...), "two of one origin")

	w.Feed(first, []byte(text), nil)
	require.Equal(t, before, s.Hash(), "the origin stays where it is, also past the end of the chunk")
	third := freeze(s, m.LM.Config)
	w.Feed(third, []byte("xyz"), nil)
	other.Feed(s, []byte(text[2*testChunk+3:2*testChunk+6]), nil)
	w.Feed(s, []byte(text[2*testChunk+6:]), nil)
	whole, _ := alone(t, m, r, text)
	require.Equal(t, whole.Hash(), s.Hash(), "the origin in a worker that has its copy's rows")
}

func TestAFrozenStreamKeepsTheAdaptedWeights(t *testing.T) {
	m := testModel(t)
	s, _ := alone(t, m, CreateRequest{}, logText(4*testChunk))
	static, _ := alone(t, m, CreateRequest{Settings: Settings{Method: MethodStatic}}, logText(4*testChunk))
	w := stream.NewWorker(m, 1)
	defer w.Close()
	next := []byte(logText(5 * testChunk)[4*testChunk:])
	want := append([]float32(nil), w.Score(s, next).NLL...)
	frozen := freeze(s, m.LM.Config)
	require.Equal(t, want, append([]float32(nil), w.Score(frozen, next).NLL...))
	require.NotEqual(t, append([]float32(nil), w.Score(static, next).NLL...), append([]float32(nil), w.Score(freeze(s, m.LM.Config), next).NLL...))
}
