package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

type session struct {
	worker *stream.Worker
	stream *stream.Stream
}

func (b *bench) newSession(threads int, seed uint64) session {
	w := stream.NewWorker(b.model, threads)
	return session{w, b.startedStream(w, seed)}
}

// feed scores chunks for the duration `enough`, and returns tokens per second.
func (s session) feed(b *bench, text []byte, enough time.Duration) float64 {
	start := time.Now()
	chunks := 0
	for elapsed := time.Duration(0); chunks == 0 || elapsed < enough &&
		b.ctx.Err() == nil; elapsed = time.Since(start) {
		s.worker.Feed(s.stream, text, nil)
		chunks++
	}
	return float64(chunks*b.Chunk) / time.Since(start).Seconds()
}

// sessionCounts returns the powers of two below b.Threads, and b.Threads.
func (b *bench) sessionCounts() (counts []int) {
	for n := 1; n < b.Threads; n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, b.Threads)
}

// sessions measures the throughput of n parallel sessions with one thread each. The limit is n
// times the throughput of a single session. It also measures one session on all threads.
func (b *bench) sessions() {
	b.next("sessions")
	var all []session
	for i := range b.Threads {
		all = append(all, b.newSession(1, uint64(i)))
		defer all[i].worker.Close()
	}
	wide := b.newSession(b.Threads, 0)
	defer wide.worker.Close()

	counts := b.sessionCounts()
	speeds := make([][]float64, len(counts)+1)
	// Measurements alternate, so that changes in the computer's speed affect all of them.
	b.sample(func() {
		for i, n := range counts {
			speeds[i] = append(speeds[i], b.together(all[:n]))
		}
		if b.Threads > 1 {
			speeds[len(counts)] = append(speeds[len(counts)], b.together([]session{wide}))
		}
	})
	if b.ctx.Err() != nil {
		return
	}
	one := median(speeds[0])
	for i, n := range counts {
		b.addSessions(fmt.Sprintf("%d x 1 thread", n), n, median(speeds[i]), float64(n)*one, one)
	}
	if b.Threads > 1 {
		b.addSessions(fmt.Sprintf("1 x %d threads", b.Threads), b.Threads,
			median(speeds[len(counts)]), float64(b.Threads)*one, one)
	}
}

func (b *bench) addSessions(shape string, threads int, speed, limit, one float64) {
	b.report.Rows = append(b.report.Rows, Row{Section: Sessions, What: "sessions", Shape: shape,
		Threads: threads,
		Seconds: float64(b.Chunk) / speed, Achieved: speed, Limit: limit, Unit: b.unit(),
		OfLimit: speed / limit,
		Note:    fmt.Sprintf("%.2f x one on one thread", speed/one)})
}

// together feeds all sessions in parallel, and returns the sum of their speeds in tokens per
// second.
func (b *bench) together(sessions []session) (sum float64) {
	text := b.text(b.Chunk)
	enough := time.Duration(b.Seconds / samplesMin * float64(time.Second))
	speeds := make([]float64, len(sessions))
	var group sync.WaitGroup
	for i, s := range sessions {
		group.Go(func() { speeds[i] = s.feed(b, text, enough) })
	}
	group.Wait()
	for _, v := range speeds {
		sum += v
	}
	return sum
}

// Speed returns the bytes per second that one session scores and learns, with the model's default
// settings and a full memory. The text is the same on every computer. It does not repeat, so that
// the session always has something to learn.
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
