package session

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/txl"
)

// commits reports whether the completion feeds its session.
func (r *CompleteRequest) commits() bool { return r.Commit == CommitPrompt || r.Commit == CommitAll }

// beginCommit makes a completion that commits the one request that feeds its session, until end is
// called, and makes sure that there is room for what it will commit.
func (e *engine) beginCommit(
	ctx context.Context, s *liveSession, r CompleteRequest,
) (end func(), err error) {
	if !r.commits() {
		return func() {}, nil
	}
	if end, err = e.beginFeeding(ctx, s); err != nil {
		return nil, err
	}
	if err := e.roomFor(s, r); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// complete carries out a completion that was checked. A completion that commits feeds the prompt
// first, so that the text is sampled from a model that has learnt from it, and the text last.
func (e *engine) complete(
	ctx context.Context, s *liveSession, r CompleteRequest, emit func(Piece) error,
) (Completion, error) {
	f := feeder{engine: e, s: s, emit: noChunks}
	prompt := r.Prompt
	if r.commits() {
		if err := f.all(ctx, prompt); err != nil {
			return Completion{}, err
		}
		prompt = nil
	}
	g := newGeneration(e, s, prompt, r)
	g.admitted = f.admitted
	done, err := g.run(ctx, emit)
	f.admitted = true
	if err == nil && r.Commit == CommitAll {
		err = f.all(ctx, done.Text)
	}
	done.PromptTokens = len(r.Prompt) // a token is a byte
	done.Offset = s.seen().offset
	return done, err
}

// roomFor says whether the session, the disk and the memory have room for what a completion will commit at
// most.
func (e *engine) roomFor(s *liveSession, r CompleteRequest) error {
	bytes := int64(len(r.Prompt))
	if r.Commit == CommitAll {
		bytes += int64(r.MaxTokens)
	}
	if have := s.seen().offset; have+bytes > e.textMax {
		return &LimitError{Offset: have, Max: e.textMax}
	}
	records := int(bytes)/s.Settings.Chunk + 4 // the first and last of prompt and text are short
	if err := e.diskFor(s, int(bytes), records); err != nil {
		return err
	}
	return memoryError(e.states.budget.Check(textBytes(e.store(), int(bytes), records)))
}

// generation is a completion under way. It works in turns of at most one chunk and about a chunk's
// time, each with a worker of its own from the line, so that a long completion does not keep short
// requests waiting; its
// frozen stream carries it from turn to turn, and the bits are those of one go. It runs on a
// goroutine beside the caller's, which emits: the worker never waits for a client.
type generation struct {
	engine   *engine
	s        *liveSession
	prompt   []byte // not fed yet
	sampler  *txl.Sampler
	most     int // tokens
	cut      cutter
	admitted bool // the request has waited before

	frozen   *stream.Stream // where the completion is
	tokens   int            // sampled
	broken   bool           // a token's log-probability is not finite
	reason   string         // why it ended, "" before
	late     []Piece        // that out has no room for
	out      chan Piece
	err      error  // of the goroutine, as panicked: to be read after out is closed
	panicked string // what the goroutine panicked with, and its stack
}

func newGeneration(e *engine, s *liveSession, prompt []byte, r CompleteRequest) *generation {
	sampling := r.sampling().Sampling
	sampling.Seed = seedOr(r.Seed)
	return &generation{
		engine:  e,
		s:       s,
		prompt:  prompt,
		sampler: txl.NewSampler(sampling, e.model.LM.Config.Vocab),
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
	open := func() error { return g.engine.states.openCurrent(ctx, g.s) }
	if err := g.engine.waiting.wait(g.s.Owner, &g.admitted, open); err != nil {
		return err
	}
	defer g.s.unlock()
	g.frozen = g.s.stream.Frozen()
	for len(g.prompt) > 0 {
		if err := g.turnLocked(ctx, g.read); err != nil {
			return err
		}
	}
	for g.reason == "" {
		if err := g.turnLocked(ctx, func(w *stream.Worker) { g.sample(ctx, w) }); err != nil {
			return err
		}
		if g.broken {
			return g.s.condemnLocked(fmt.Errorf("token %d of a completion from offset %d on has a "+
				"log-probability that is not a finite number", g.tokens, g.s.seen().offset))
		}
		if err := g.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turnLocked does one turn's work with a worker, unless the session was deleted, or is another's by
// now.
func (g *generation) turnLocked(ctx context.Context, do func(*stream.Worker)) error {
	if err := g.s.alive(); err != nil {
		return err
	}
	if err := g.engine.journal.heldLocked(ctx, g.s); err != nil {
		return err
	}
	l, err := g.engine.leaseLocked(ctx, g.s, &g.admitted)
	if err != nil {
		return err
	}
	defer l.Release()
	do(l.Worker())
	return nil
}

// read feeds a chunk of the prompt.
func (g *generation) read(w *stream.Worker) {
	n := min(len(g.prompt), g.frozen.Room())
	w.Feed(g.frozen, g.prompt[:n], nil)
	g.prompt = g.prompt[n:]
}

// sample samples up to the end of the chunk, or as long as a turn may take.
func (g *generation) sample(ctx context.Context, w *stream.Worker) {
	room, begun := g.frozen.Room(), time.Now()
	w.Generate(g.frozen, g.sampler, func(id int32, logProb float32) bool {
		g.accept(byte(id), float64(logProb))
		room--
		goesOn := g.reason == "" && !g.broken && ctx.Err() == nil
		return goesOn && room > 0 && time.Since(begun) < turnMost
	})
}

// accept accepts a sampled token.
func (g *generation) accept(token byte, logProb float64) {
	if g.broken = !finite(logProb); g.broken {
		return
	}
	g.tokens++
	p, stopped := g.cut.push(token, logProb)
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
