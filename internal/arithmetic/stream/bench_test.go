package stream

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// BenchmarkLines feeds a log to one worker: as plain text, divided into lines, and with learning by
// lines.
func BenchmarkLines(b *testing.B) {
	m, err := model.Default()
	require.NoError(b, err)
	var text []byte
	for i := range 40 {
		text = fmt.Appendf(text,
			"Dec 10 07:%02d:%02d host sshd[%d]: Failed password for user%d from "+
				"10.0.%d.%d port %d ssh2\n", i/60, i%60, 24200+i*7%90, i*i%23, i%9, i*13%251,
			38000+i*37%999)
	}
	always := func(*lines.Line) bool { return true }
	tenth := func(l *lines.Line) bool { return l.Number%10 == 0 }
	never := func(*lines.Line) bool { return false }
	for _, c := range []struct {
		name    string
		lines   bool
		skipped func(*lines.Line) bool // nil if the stream does not learn by lines
	}{
		{"text", false, nil}, {"lines", true, nil}, {"by line, all learnt", true, never},
		{"by line, 9 of 10 learnt", true, tenth}, {"by line, none learnt", true, always},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := NewWorker(m, 1)
			defer w.Close()
			s := New(m, Defaults(m))
			if c.lines {
				s.WatchLines(0)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				feedLines(w, s, text, c.skipped)
			}
		})
	}
}

func feedLines(w *Worker, s *Stream, text []byte, skipped func(*lines.Line) bool) {
	for len(text) > 0 {
		part := text[:min(len(text), s.Room())]
		scores := Scores{}
		if skipped == nil {
			scores = w.Score(s, part)
		} else {
			scores = w.ScoreLines(s, part, skipped)
		}
		w.CommitLines(s, scores, nil)
		w.Settle(s)
		text = text[len(part):]
	}
}
