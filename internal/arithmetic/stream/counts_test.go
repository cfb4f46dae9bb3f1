package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

func TestCountsLearnWithoutNetwork(t *testing.T) {
	m := model.Counts()
	text := []byte(strings.Repeat("GET /index.html 200\nGET /style.css 304\n", 200))
	set := Defaults(m)
	require.NoError(t, set.Validate(m))
	w := NewWorker(m, 1)
	defer w.Close()

	whole, pieces := New(m, set), New(m, set)
	feedPieces(w, whole, text, len(text))
	feedPieces(w, pieces, text, 7)
	require.Equal(t, whole.Hash(), pieces.Hash())
	require.Less(t, whole.Tally.BitsPerByte(), .5)

	snapshot, err := whole.Snapshot()
	require.NoError(t, err)
	again, _, err := Restore(m, set, snapshot.Stored())
	require.NoError(t, err)
	feedPieces(w, whole, text, 100)
	feedPieces(w, again, text, 100)
	require.Equal(t, whole.Hash(), again.Hash())
}

func feedPieces(w *Worker, s *Stream, text []byte, size int) {
	for len(text) > 0 {
		n := min(size, len(text), s.Room())
		w.Commit(s, w.Score(s, text[:n]))
		w.Settle(s)
		text = text[n:]
	}
}

func TestCountsWithoutCompanionRateLines(t *testing.T) {
	m := model.Counts()
	set := Defaults(m)
	set.Companion = false
	w := NewWorker(m, 1)
	defer w.Close()
	s := New(m, set)
	s.WatchLines(0)
	text := []byte(strings.Repeat("GET /index.html 200\n", 500) + "DROP TABLE users;\n")
	var last lines.Line
	for len(text) > 0 {
		scores := w.Score(s, text)
		for _, nats := range scores.NLL {
			require.InDelta(t, 8*math.Ln2, nats, 1e-6)
		}
		w.CommitLines(s, scores, func(l *lines.Line) { last = *l })
		w.Settle(s)
		text = text[len(scores.Text):]
	}
	require.Less(t, last.P, 1./1000)
}

func TestCountsHasOneModel(t *testing.T) {
	m := model.Counts()
	for _, method := range AllMethods() {
		err := Supports(m, method)
		require.Equal(t, method == Counts, err == nil, "%s: %v", method, err)
	}
	set := Defaults(m)
	set.Baseline = true
	require.ErrorContains(t, set.Validate(m), "has no network")
}
