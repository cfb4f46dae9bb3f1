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

// generation samples the texts of a plan in turns of at most a chunk. For each turn it queues for a
// worker, so a long completion does not delay short requests. A frozen stream carries the text from
// turn to turn, and the result is bit-identical to that of one long turn. A separate goroutine
// computes while the caller emits pieces, so no worker waits for a client.
type generation struct {
	engine *engine
	s      *session
	blank  bool // the session is from index.blank, and not in the store
	plan
	admitted bool // the request has already passed the queue
	// maxWait limits how long the request waits for the recovery of the state; see openWithin.
	maxWait time.Duration
	within  time.Duration // limit on the field took; 0 means no limit
	took    time.Duration // time spent reading the prompt, without waits for workers

	broken   bool    // a token's log-probability is not finite
	late     []Piece // pieces to send when the channel out has room
	out      chan Piece
	err      error  // error of the goroutine; read only after out is closed
	panicked string // panic of the goroutine with its stack; read after out is closed
}

// run starts the goroutine and emits the pieces that it generates.
func (g *generation) run(ctx context.Context, emit func(Piece) error) error {
	queue := pieceQueue
	if g.echo { // an echoed piece is as long as a chunk, so few are buffered
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

// generate runs in its own goroutine. It records a panic, which run raises again.
func (g *generation) generate(ctx context.Context) {
	defer close(g.out)
	defer func() {
		if p := recover(); p != nil {
			g.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	g.err = g.turns(ctx)
}

// turns generates the texts of all prompts. It keeps the session's state locked, and does not
// change it.
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
	return g.engine.waiting.wait(g.s.Owner, &g.admitted, func() error {
		if g.blank {
			return g.s.openBlank(ctx, frozenMax)
		}
		return g.s.openCurrent(ctx, g.maxWait)
	})
}

// continueLocked reads one prompt, and then generates all texts that continue it.
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

// reading is the progress in reading a prompt.
type reading struct {
	prompt []byte
	read   int // bytes read so far
	words  int // offset in the prompt at which the last token ends; may be negative
}

// readLocked returns a frozen stream that has read the prompt, one chunk per turn. A word at the
// end of the prompt counts as complete. If echo is set, each draft begins with the prompt. At the
// time limit, readLocked caches the stream for the next request and returns errUnread.
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

// writeLocked samples one text, at most a chunk per turn.
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

// turnLocked waits for a worker and calls parameter do with it. It fails if the session was deleted
// or moved to another server.
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

// endTurnLocked ends a turn. It waits if the client is slow to receive the turn's pieces. If a
// log-probability is not a finite number, it marks the session as unusable.
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
	if g.blank { // then the model is broken, not the session
		return fmt.Errorf("session: %w", why)
	}
	return g.s.markUnusableLocked(why)
}

// read feeds the next part of the prompt, up to the end of the chunk. After the whole prompt, it
// ends the prompt's last word.
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

// scored records the scores of a token of the prompt. A word may begin in the session's text and
// end in the prompt; if so, it is not recorded.
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

// sample samples tokens up to the end of the chunk or of the turn's time.
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
		return // empty, which can happen at the end of a prompt's last word
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

// catchUp sends all late pieces to run, and waits while the channel is full.
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
