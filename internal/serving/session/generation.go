package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// generation samples completions in turns of at most one chunk of tokens. It waits for a free
// worker before each turn, so a long completion does not delay short requests. The result is
// bit-identical to that of one long turn. A separate goroutine computes while the caller sends the
// pieces of text, so no worker waits for a client.
type generation struct {
	engine *engine
	s      *session
	blank  bool // the session is empty and not in the store
	plan
	admitted bool
	// maxWait limits how long the request waits for the recovery of the session's state.
	maxWait time.Duration
	within  time.Duration // limit on the field took; 0 means no limit
	took    time.Duration

	broken   bool
	late     []Piece
	out      chan Piece
	err      error  // error of the goroutine; read only after out is closed
	panicked string // panic of the goroutine with its stack; read after out is closed
}

// run generates the texts in a separate goroutine, and calls emit with each piece of text.
func (g *generation) run(ctx context.Context, emit func(Piece) error) error {
	queue := pieceQueue
	if g.echo { // An echoed piece of the prompt is as long as a chunk, so the buffer is small.
		queue = 1
	}
	g.out = make(chan Piece, queue)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { // waits until the goroutine has ended, even if emit fails
		cancel()
		for range g.out {
		}
	}()
	go g.generate(ctx)
	for p := range g.out {
		if err := emit(p); err != nil {
			return err
		}
	}
	if g.panicked != "" {
		panic(g.panicked)
	}
	return g.err
}

func (g *generation) generate(ctx context.Context) {
	defer close(g.out)
	defer func() {
		if p := recover(); p != nil {
			g.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	g.err = g.turns(ctx)
}

// turns generates the texts of all prompts. Meanwhile it locks the session's state, but does not
// change the state.
func (g *generation) turns(ctx context.Context) error {
	if err := g.open(ctx); err != nil {
		return err
	}
	defer g.s.unlock()
	for i := range g.prompts {
		if err := g.continueLocked(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// open waits for the session's state and locks it. The caller must call unlock.
func (g *generation) open(ctx context.Context) error {
	if !g.blank {
		return g.engine.openCurrent(ctx, g.s, &g.admitted, g.maxWait)
	}
	return g.engine.waiting.wait(g.s.Owner, &g.admitted, func() error {
		return g.s.openBlank(ctx, frozenMax)
	})
}

func (g *generation) continueLocked(ctx context.Context, prompt int) error {
	drafts := g.drafts(prompt, g.s.model.OfWords())
	read, err := g.readLocked(ctx, g.prompts[prompt], drafts)
	if err != nil {
		return err
	}
	if g.fills() {
		return g.fillLocked(ctx, read, drafts)
	}
	for i, d := range drafts {
		frozen := read
		if i < len(drafts)-1 {
			frozen = read.Frozen()
		}
		if err := g.writeLocked(ctx, frozen, d); err != nil {
			return err
		}
	}
	return nil
}

// errUnread means that the time limit was reached before the prompt was read.
var errUnread = errors.New("the prompt was not read in time")

type reading struct {
	prompt []byte
	read   int
	// offset in the prompt at which the last token ends; negative if it ends before the prompt
	words int
}

// readLocked feeds the prompt to a copy of the session's stream that does not learn, one chunk per
// turn. A word at the end of the prompt counts as complete. If echo is set, each draft begins with
// the prompt. At the time limit, readLocked caches the copy for the next request and returns
// errUnread.
func (g *generation) readLocked(
	ctx context.Context, prompt []byte, drafts []*draft,
) (*stream.Stream, error) {
	ends := g.promptEnds(prompt)
	frozen, read := g.beginReading(ends)
	r := reading{prompt: prompt, read: read, words: -int(frozen.Text.Size())}
	for r.read < len(prompt) || frozen.MidWord() {
		err := g.turnLocked(ctx, func(w *stream.Worker) {
			began := time.Now()
			g.read(w, frozen, &r, drafts)
			g.took += time.Since(began)
		})
		if err == nil {
			err = g.endTurnLocked(ctx, drafts[0])
		}
		if err != nil {
			return nil, err
		}
		late := g.within > 0 && g.took >= g.within && r.read < len(prompt)
		if kept := g.keepReading(ends, frozen, r.read, late); late && kept {
			return nil, errUnread
		}
	}
	return frozen, nil
}

func (g *generation) writeLocked(ctx context.Context, frozen *stream.Stream, d *draft) error {
	if d.maxTokens == 0 {
		g.end(d, FinishLength, d.cut.end())
	}
	var sampler *txl.Sampler
	if d.reason == "" {
		sampler = txl.NewSampler(d.sampling, g.s.model.LM.Config.Vocab)
	}
	for d.reason == "" {
		err := g.turnLocked(ctx, func(w *stream.Worker) { g.sample(ctx, w, frozen, d, sampler) })
		if err == nil {
			err = g.endTurnLocked(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return g.catchUp(ctx)
}

// turnLocked waits for a worker, and then calls parameter `do` with this worker. It fails if the
// session was deleted or moved to another server.
func (g *generation) turnLocked(ctx context.Context, do func(*stream.Worker)) error {
	if err := g.s.alive(); err != nil {
		return err
	}
	if !g.blank {
		if err := g.s.heldLocked(ctx); err != nil {
			return err
		}
	}
	l, err := g.engine.leaseLocked(ctx, g.s, &g.admitted)
	if err != nil {
		return err
	}
	defer l.Release()
	begun := time.Now()
	do(l.Worker())
	phaseSince(ctx, g.engine.observer, PhaseSample, begun)
	return nil
}

// endTurnLocked waits until the client can receive the turn's pieces. If a log-probability is not a
// finite number, it marks the session as unusable.
func (g *generation) endTurnLocked(ctx context.Context, d *draft) error {
	if !g.blank {
		if err := g.s.stillHolds(); err != nil {
			return err
		}
	}
	if !g.broken {
		return g.catchUp(ctx)
	}
	why := fmt.Errorf("the log-probability of token %d of a completion at offset %d is not a "+
		"finite number", d.tokens, g.s.seen().offset)
	if g.blank { // an empty session cannot be the cause, so the model is broken
		return fmt.Errorf("session: %w", why)
	}
	return g.s.markUnusableLocked(why)
}

func (g *generation) read(
	w *stream.Worker, frozen *stream.Stream, r *reading, drafts []*draft,
) {
	var scores tokenScores
	rest, n := r.prompt[r.read:], 0
	scored := func(t stream.Token) { g.scored(&scores, r, t) }
	switch asked := g.echo && g.logProbs; {
	case len(rest) == 0 && asked:
		w.EndWord(frozen, scored)
	case len(rest) == 0:
		w.EndWord(frozen, nil)
	case asked:
		n = w.Read(frozen, rest, scored)
	default:
		n = w.FeedAs(frozen, rest, stream.Lesson{})
	}
	r.read += n
	for _, d := range drafts {
		if g.echo {
			g.queue(d, d.cut.echo(rest[:n], scores))
		}
	}
}

// scored records the scores of a token of the prompt. It leaves out a token that ends in the
// session's text, before the prompt.
func (g *generation) scored(scores *tokenScores, r *reading, t stream.Token) {
	logProb := float64(t.LogProbs[t.ID])
	g.broken = g.broken || !finite(logProb)
	begin := r.words
	r.words += int(t.Size)
	if r.words <= 0 {
		return
	}
	scores.logProbs = append(scores.logProbs, logProb)
	scores.top = append(scores.top, candidates(t.LogProbs, g.top))
	if g.s.model.OfWords() {
		scores.addWord(t.ID, r.words-max(0, begin))
	}
}

// sample samples tokens until the chunk ends or turnMax has passed.
func (g *generation) sample(
	ctx context.Context, w *stream.Worker, frozen *stream.Stream, d *draft, sampler *txl.Sampler,
) {
	room, begun := frozen.Room(), time.Now()
	w.Sample(frozen, sampler, func(t stream.Token) bool {
		if g.broken = !finite(float64(t.LogProbs[t.ID])); !g.broken {
			g.accept(d, t)
		}
		room--
		more := d.reason == "" && !g.broken && ctx.Err() == nil
		return more && room > 0 && time.Since(begun) < turnMax
	})
}

func (g *generation) accept(d *draft, t stream.Token) {
	d.tokens++
	d.cut.note(candidates(t.LogProbs, g.top))
	p, stopped := d.cut.push(t.ID, t.Text, float64(t.LogProbs[t.ID]))
	switch {
	case stopped:
		g.end(d, FinishStop, p)
	case d.enough != nil && d.enough(append(d.kept.Text, p.Text...)):
		g.queue(d, p)
		g.end(d, FinishStop, d.cut.end())
	case d.tokens == d.maxTokens:
		g.queue(d, p)
		g.end(d, FinishLength, d.cut.end())
	default:
		g.queue(d, p)
	}
}

func (g *generation) end(d *draft, reason string, last Piece) {
	d.reason = reason
	last.FinishReason, last.Tokens = reason, d.tokens
	if d.kept == nil {
		g.engine.observer.Completed(reason, d.tokens)
	}
	g.queue(d, last)
}

// queue sends a piece to the goroutine of run, without waiting. If the channel is full, it keeps
// the piece for later.
func (g *generation) queue(d *draft, p Piece) {
	if d.kept != nil {
		d.kept.add(p)
		return
	}
	if len(p.Text) == 0 && len(p.LogProbs) == 0 && p.FinishReason == "" {
		return // the end of a prompt's last word may yield an empty piece
	}
	p.Index = d.index
	if len(g.late) == 0 {
		select {
		case g.out <- p:
			return
		default:
		}
	}
	g.late = append(g.late, p)
}

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
