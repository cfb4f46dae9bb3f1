package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// chunks measures chunks of a static and of an adaptive stream that continue an earlier chunk. It
// also measures a static chunk that starts from stored memory, as when a worker changes streams. If
// fast weights affect keys, chunks also measures an adaptive chunk with stale keys.
func (b *bench) chunks() {
	t := b.newText(b.segment())
	for _, threads := range b.threadCounts() {
		t.Segment.SetReuse(txl.Reuse{FixedWeights: true})
		t.Begin()
		static := b.staticChunk(threads, t, "static chunk", none, func() {
			t.score()
			t.Remember()
			t.Continue()
		})
		b.staticChunk(threads, t, "static chunk, anew", keys, func() {
			t.Begin()
			t.score()
			t.Remember()
		})
		if threads == 1 && b.hasCompanion() {
			b.companionChunk(static)
		}
		if b.model.Learner == nil {
			continue
		}
		adaptive := b.adaptiveChunk(threads, t, false, static)
		if b.hasCompanion() {
			b.staticBeside(threads, t, adaptive)
		}
		if b.adaptsKeys() {
			b.adaptiveChunk(threads, t, true, static)
		}
	}
}

// Functions that report whether the memory's products with a tensor must be recomputed.
var (
	none = func(string) bool { return false }
	keys = func(tensor string) bool { return strings.HasSuffix(tensor, keysSuffix) }
)

// keysSuffix ends the names of the tensors that compute queries, keys and values.
const keysSuffix = "dec_attn.qkv_net.weight"

func (b *bench) adaptsKeys() bool {
	return b.model.Learner != nil && slices.ContainsFunc(b.model.Learner.Branches,
		func(branch sparsemeta.Branch) bool { return keys(branch.Name) })
}

func (b *bench) staticChunk(
	threads int, t *text, what string, moved func(tensor string) bool, do func(),
) (seconds float64) {
	w := work{products: t.size.forwardAfter(moved), reads: t.size.tailReads()}
	return b.measure(threads, t.task(Chunks, what, w), do)
}

func (b *bench) adapted() wanted {
	branches := map[string]bool{}
	for _, branch := range b.model.Learner.Branches {
		branches[branch.Name] = true
	}
	return func(tensor string) bool { return branches[tensor] }
}

type adaptive struct {
	text
	laps  [len(phaseNames)][]float64 // seconds by phase and chunk
	whole []float64
}

var phaseNames = [...]string{"forward", "backward", "update"}

// newAdaptive returns an adaptive text that shares the segment and memory of the static text t.
func newAdaptive(t *text, m *model.Model) *adaptive {
	a := &adaptive{text: *t}
	a.Rule = servingRule(m)
	a.State = a.NewState(1)
	a.Fast, a.Grads = stream.NewArena(m), stream.NewArena(m)
	a.Begin()
	return a
}

// step computes a chunk in the phases of a stream's worker, and stores their times. Updating the
// memory and preparing the next chunk belong to the phase forward.
func (a *adaptive) step() {
	start := time.Now()
	last := start
	lap := func() float64 {
		now := time.Now()
		seconds := max(now.Sub(last), 1).Seconds()
		last = now
		return seconds
	}
	a.score()
	forward := lap()
	a.Backward(a.next)
	backward := lap()
	a.Update()
	update := lap()
	a.Remember()
	a.Continue()
	forward += lap()
	for phase, seconds := range []float64{forward, backward, update} {
		a.laps[phase] = append(a.laps[phase], seconds)
	}
	a.whole = append(a.whole, last.Sub(start).Seconds())
}

// measured returns a function that computes chunks for the time of a row. The time of the first
// chunk does not count, since this chunk warms the caches.
func (a *adaptive) measured(b *bench) func() {
	return func() {
		a.step()
		a.laps, a.whole = [len(phaseNames)][]float64{}, nil
		b.sample(a.step)
	}
}

// adaptiveChunk measures an adaptive chunk, and returns its time in seconds. With stale keys, the
// chunk does not recompute the keys and values of its memory. Without stale keys, the rows also
// include the chunk's phases. The parameter `static` is the time of a static chunk.
func (b *bench) adaptiveChunk(threads int, t *text, stale bool, static float64) (total float64) {
	if b.ctx.Err() != nil {
		return 0
	}
	what, chunk, adapted := "adaptive chunk", *t, b.adapted()
	moved := adapted
	if stale {
		what += ", stale keys"
		moved = func(tensor string) bool { return adapted(tensor) && !keys(tensor) }
		chunk.size.staleKeys = true
		chunk.Segment.SetReuse(txl.Reuse{FixedWeights: true, StaleKeys: true})
	}
	a := newAdaptive(&chunk, b.model)
	r := b.beside(threads, what, a.measured(b))
	if b.ctx.Err() != nil {
		return 0
	}
	l := b.model.Learner
	forward, backward := chunk.size.forwardAfter(moved), chunk.size.backward(adapted)
	total = median(a.whole)
	tails := chunk.size.tailReads()
	whole := chunk.task(Chunks, what,
		work{products: forward + backward, streams: updateBytes(l), reads: 2 * tails})
	whole.note = fmt.Sprintf("%.2f x static", total/static)
	b.add(whole, threads, total, r)
	if stale {
		return total
	}
	phases := []task{
		task{}.ofProducts(forward).reading(tails), task{}.ofProducts(backward).reading(tails),
		updateTask(l),
	}
	for p, phase := range phases {
		phase.section, phase.what = Chunks, "  "+phaseNames[p]
		seconds := median(a.laps[p])
		phase.note = fmt.Sprintf("%.0f %% of the chunk", 100*seconds/total)
		b.add(phase, threads, seconds, r)
	}
	return total
}
