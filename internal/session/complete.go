package session

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/setting"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/txl"
)

// Complete samples text after the session's text and the prompt, from the model as the session has adapted it, and leaves the session as it
// was unless it is told to commit. emit is told of each piece of the text as it grows. While a completion samples, the session takes no
// other text: a request that feeds it goes on afterwards; a completion that commits is itself a feeder, and gets ErrBusy beside another.
//
// It ends with emit's error, with the context, with ErrNotFound when the session is deleted meanwhile, and at its beginning with ErrOverloaded.
func (mg *Manager) Complete(ctx context.Context, who Caller, id string, r CompleteRequest, emit func(Piece) error) (Completion, error) {
	s, err := mg.use(who, id)
	if err != nil {
		return Completion{}, err
	}
	defer mg.unuse(s)
	if err := checkCompletion(r); err != nil {
		return Completion{}, err
	}
	if err := mg.enter(); err != nil {
		return Completion{}, err
	}
	defer mg.leave()
	f := feeder{mg: mg, s: s, emit: func(Chunk) error { return nil }}
	prompt := r.Prompt
	if r.Commit == CommitPrompt || r.Commit == CommitAll {
		if !s.feeding.CompareAndSwap(false, true) {
			return Completion{}, ErrBusy
		}
		defer s.feeding.Store(false)
		if err := mg.fits(s, r); err != nil {
			return Completion{}, err
		}
		if err := f.all(ctx, prompt); err != nil {
			return Completion{}, err
		}
		prompt = nil
	}
	g := newGeneration(mg, s, prompt, r)
	g.admitted = f.admitted
	done, err := g.run(ctx, emit)
	f.admitted = true
	if err == nil && r.Commit == CommitAll {
		err = f.all(ctx, done.Text)
	}
	done.PromptTokens = len(r.Prompt) // a token is a byte
	done.Offset = mg.touch(s).offset
	return done, err
}

// fits says whether the session and the memory have room for what a completion will commit at most.
func (mg *Manager) fits(s *session, r CompleteRequest) error {
	bytes := int64(len(r.Prompt))
	if r.Commit == CommitAll {
		bytes += int64(r.MaxTokens)
	}
	if have := mg.offset(s); have+bytes > mg.options.MaxSessionBytes {
		return &LimitError{Offset: have, Max: mg.options.MaxSessionBytes}
	}
	mg.mu.Lock()
	defer mg.mu.Unlock()
	return mg.memoryFor(mg.textBytes(int(bytes), int(bytes)/s.Settings.Chunk+4)) // of the records, the first and last of prompt and text are short
}

// checkCompletion holds a request against its limits.
func checkCompletion(r CompleteRequest) error {
	if n := len(r.Prompt); n > PromptBytesMax {
		return &FieldError{"prompt", setting.Count(n, "byte"), fmt.Sprintf("at most %d", PromptBytesMax)}
	}
	sampling := r.sampling()
	if err := SamplingTable.Check(&sampling); err != nil {
		return fieldError("", err)
	}
	if err := checkSeed(r.Seed); err != nil {
		return err
	}
	if err := checkStops(r.Stop); err != nil {
		return err
	}
	switch r.Commit {
	case "", CommitNone, CommitPrompt, CommitAll:
		return nil
	}
	return &FieldError{"commit", strconv.Quote(r.Commit), CommitNone + ", " + CommitPrompt + " or " + CommitAll}
}

func checkStops(stops []string) error {
	if n := len(stops); n > StopStringsMax {
		return &FieldError{"stop", setting.Count(n, "string"), fmt.Sprintf("at most %d", StopStringsMax)}
	}
	for i, stop := range stops {
		if n := utf8.RuneCountInString(stop); n < 1 || n > StopCharsMax {
			return &FieldError{fmt.Sprintf("stop[%d]", i), setting.Count(n, "character"), fmt.Sprintf("1 to %d", StopCharsMax)}
		}
	}
	return nil
}

// sampling is how the request samples, but for the seed; by default from the model's own distribution.
func (r CompleteRequest) sampling() Sampling {
	s := Sampling{MaxTokens: r.MaxTokens, Sampling: txl.Sampling{Temperature: 1, TopK: r.TopK, TopP: 1}}
	if r.Temperature != nil {
		s.Temperature = *r.Temperature
	}
	if r.TopP != nil {
		s.TopP = *r.TopP
	}
	return s
}

// generation is a completion under way. It works in turns of at most one chunk, each with a worker of its own from the line, so that a long
// one does not keep short requests waiting; its frozen stream carries it from turn to turn, and the bits are those of one go. It runs on a
// goroutine beside the caller's, which emits: the worker never waits for a client.
type generation struct {
	mg       *Manager
	s        *session
	prompt   []byte // not fed yet
	sampler  *txl.Sampler
	most     int // tokens
	cut      cutter
	admitted bool // it has waited before

	frozen   *stream.Stream // where the completion is
	tokens   int            // sampled
	reason   string         // why it ended, "" before
	late     []Piece        // that out has no room for
	out      chan Piece
	err      error  // of the goroutine, as panicked: to be read after out is closed
	panicked string // of the goroutine, with its stack
}

func newGeneration(mg *Manager, s *session, prompt []byte, r CompleteRequest) *generation {
	sampling := r.sampling().Sampling
	sampling.Seed = seedOr(r.Seed)
	return &generation{
		mg:      mg,
		s:       s,
		prompt:  prompt,
		sampler: txl.NewSampler(sampling, mg.model.LM.Config.Vocab),
		most:    r.MaxTokens,
		cut:     cutter{stops: r.Stop, logProbs: r.LogProbs},
		out:     make(chan Piece, pieceQueue),
	}
}

// run emits what the goroutine generates.
func (g *generation) run(ctx context.Context, emit func(Piece) error) (Completion, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { // whatever emit does, nobody is left behind at work on the stream
		cancel()
		for range g.out {
		}
	}()
	go g.generate(ctx)
	done := Completion{Seed: g.sampler.Seed}
	for p := range g.out {
		if err := emit(p); err != nil {
			return done, err
		}
		done.Text = append(done.Text, p.Text...)
	}
	if g.panicked != "" {
		panic(g.panicked)
	}
	done.FinishReason, done.CompletionTokens = g.reason, g.tokens
	return done, g.err
}

// generate is the goroutine. Its panics become the caller's.
func (g *generation) generate(ctx context.Context) {
	defer close(g.out)
	defer func() {
		if p := recover(); p != nil {
			g.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	g.err = g.turns(ctx)
}

func (g *generation) turns(ctx context.Context) error {
	if err := g.mg.waiting.wait(&g.admitted, func() error { return g.mg.lock(ctx, g.s) }); err != nil {
		return err
	}
	defer g.mg.unlock(g.s)
	g.frozen = g.s.stream.Frozen()
	for len(g.prompt) > 0 {
		if err := g.take(ctx, g.read); err != nil {
			return err
		}
	}
	for g.reason == "" {
		if err := g.take(ctx, func(w *stream.Worker) { g.sample(ctx, w) }); err != nil {
			return err
		}
		if err := g.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take takes a turn.
func (g *generation) take(ctx context.Context, do func(*stream.Worker)) error {
	if err := g.mg.alive(g.s); err != nil {
		return err
	}
	var l *lease
	err := g.mg.waiting.wait(&g.admitted, func() (err error) {
		l, err = g.mg.scheduler.lease(ctx, g.s.job())
		return err
	})
	if err != nil {
		return err
	}
	defer l.release()
	do(l.worker())
	return nil
}

// read feeds a chunk of the prompt.
func (g *generation) read(w *stream.Worker) {
	n := min(len(g.prompt), g.frozen.Room())
	w.Feed(g.frozen, g.prompt[:n], nil)
	g.prompt = g.prompt[n:]
}

// sample samples up to the end of the chunk.
func (g *generation) sample(ctx context.Context, w *stream.Worker) {
	room := g.frozen.Room()
	w.Generate(g.frozen, g.sampler, func(id int32, logProb float32) bool {
		g.add(byte(id), float64(logProb))
		room--
		return g.reason == "" && room > 0 && ctx.Err() == nil
	})
}

// add takes a sampled token.
func (g *generation) add(token byte, logProb float64) {
	g.tokens++
	p, stopped := g.cut.add(token, logProb)
	g.queue(p)
	switch {
	case stopped:
		g.reason = FinishStop
	case g.tokens == g.most:
		g.reason = FinishLength
		g.queue(g.cut.end())
	}
}

// queue never waits.
func (g *generation) queue(p Piece) {
	if len(p.Text) == 0 {
		return
	}
	if len(g.late) == 0 {
		select {
		case g.out <- p:
			return
		default:
		}
	}
	g.late = append(g.late, p)
}

// catchUp waits for a client that is a whole turn behind.
func (g *generation) catchUp(ctx context.Context) error {
	for _, p := range g.late {
		select {
		case g.out <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.late = g.late[:0]
	return nil
}
