package bench

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Speed measures how many bytes a second one session with the model's defaults scores and learns,
// on so many threads, its memory full. The text is the same on every machine, and none of it comes
// twice, so that there is something to learn everywhere.
func Speed(
	ctx context.Context, m *model.Model, threads int, enough time.Duration,
) (bytesPerSecond float64, err error) {
	l, w := newLanguage(m.Tokenizer), stream.NewWorker(m, threads)
	defer w.Close()
	s, at := stream.New(m, stream.Defaults(m)), 0
	feed := func() {
		w.Feed(s, l.textFrom(at, s.Settings.Chunk), nil)
		at += s.Settings.Chunk
	}
	for s.Memory.Len < m.LM.Config.MemLen && ctx.Err() == nil {
		feed()
	}
	from, begun := s.Offset(), time.Now()
	for ctx.Err() == nil {
		feed()
		if took := time.Since(begun); took >= enough {
			return float64(s.Offset()-from) / took.Seconds(), nil
		}
	}
	return 0, ctx.Err()
}
