package session

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file chooses a text that fills the gap between a prompt and a suffix. It samples several
// texts after the prompt, and cuts each text at several possible ends. It ranks the cut texts by
// cost. The cost is -log(P(text | prompt) P(suffix | prompt, text)), for the first bytes of the
// suffix. A byte model computes the cost exactly.

const (
	fillTexts      = 3   // sampled texts, or more if the request asks for more
	fillFirstBytes = 128 // maximum length of the first text, in bytes
	// maximum length of each later text, in bytes; a later text also ends after its first line that
	// is not blank
	fillOtherBytes  = 48
	fillEnds        = 4       // maximum number of ranked ends per text
	fillSuffixBytes = 32      // number of bytes of the suffix that are scored
	fillCandidates  = 10      // ranked suggestions, or more if the request asks for more
	fillTreeBytes   = 4 << 20 // limit on the bytes of cached prefixes of all texts
	// fillTemperature is the minimum temperature for the second and later texts. At temperature 0
	// all texts would be equal.
	fillTemperature = 0.6
)

// ranks reports whether texts can be ranked by the cost of the suffix after them.
func (g *generation) ranks() bool {
	return !g.echo && !g.s.model.OfWords() && g.s.Settings.Method != MethodCache
}

func (g *generation) fills() bool { return len(g.suffix) > 0 && g.maxTokens > 0 && g.ranks() }

// prepareFill shortens long prompts if the request has a suffix. If texts cannot be ranked by the
// cost of the suffix, prepareFill adds a stop string: the beginning of the suffix.
func (g *generation) prepareFill() {
	if g.suffix == nil {
		return
	}
	if !g.ranks() {
		if stop := beginning(string(g.suffix)); stop != "" {
			g.stops = append(slices.Clip(g.stops), stop)
		}
		return
	}
	g.prompts = slices.Clone(g.prompts)
	for i, prompt := range g.prompts {
		g.prompts[i] = anchored(prompt)
	}
}

// filling is a sampled text, cut at one of its possible ends.
type filling struct {
	of   *draft
	end  int
	nats float64 // cost of the cut text and the suffix after it
}

// fillLocked samples texts and emits those that fit best between the prompt and the suffix.
func (g *generation) fillLocked(
	ctx context.Context, read *stream.Stream, drafts []*draft,
) error {
	var all []filling
	tree := new(stream.Suggester)
	for i := range max(fillTexts, len(drafts)) {
		d := g.fillDraft(i)
		if err := g.writeLocked(ctx, read.Frozen(), d); err != nil {
			return err
		}
		if tree.Bytes() > fillTreeBytes {
			tree = new(stream.Suggester)
		}
		ends, err := g.endsLocked(ctx, read, tree, d)
		if err != nil {
			return err
		}
		all = append(all, ends...)
	}
	slices.SortStableFunc(all, func(a, b filling) int { return cmp.Compare(a.nats, b.nats) })
	for i, d := range drafts {
		g.tell(d, all[min(i, len(all)-1)])
	}
	return g.catchUp(ctx)
}

func (g *generation) fillDraft(i int) *draft {
	one := g.plan
	one.n = 1
	if one.maxTokens = min(one.maxTokens, fillFirstBytes); i > 0 {
		one.maxTokens = min(one.maxTokens, fillOtherBytes)
		if g.sampling.Temperature == 0 && g.seed == nil {
			one.seed = new(uint64) // at temperature 0, equal requests must get equal texts
		}
		one.sampling.Temperature = max(one.sampling.Temperature, fillTemperature)
	}
	d := one.drafts(0, false)[0]
	d.sampling.Seed = (d.sampling.Seed + uint64(i)) & SeedMax
	d.kept = new(Piece)
	d.enough = func(text []byte) bool {
		return bytes.HasSuffix(text, []byte("\n")) &&
			(i > 0 && len(bytes.TrimSpace(text)) > 0 || len(repeats(text, g.suffix)) > 0)
	}
	return d
}

// endsLocked cuts the draft's text at each possible end, and returns the cut texts with their
// costs.
func (g *generation) endsLocked(
	ctx context.Context, read *stream.Stream, tree *stream.Suggester, d *draft,
) (all []filling, err error) {
	var texts [][]byte
	for _, end := range fillingEnds(d.kept.Text, g.suffix) {
		all = append(all, filling{of: d, end: end})
		texts = append(texts, before(g.suffix, d.kept.Text[:end]))
	}
	var nats []float64
	turn := g.turnLocked(ctx, func(w *stream.Worker) {
		nats, _, err = w.Costs(ctx, read, tree, texts)
	})
	if err := cmp.Or(turn, err); err != nil {
		return nil, err
	}
	for i, cost := range nats {
		all[i].nats = cost
		g.broken = g.broken || math.IsNaN(cost)
	}
	return all, g.endTurnLocked(ctx, d)
}

// before returns a text followed by the first fillSuffixBytes bytes of the suffix. Only these bytes
// of the suffix are scored.
func before(suffix []byte, text ...[]byte) []byte {
	return append(slices.Concat(text...), suffix[:min(len(suffix), fillSuffixBytes)]...)
}

// rankBefore sorts candidates by their cost together with the suffix. Each candidate follows the
// stream's text and the typed text. The stream is unchanged.
func rankBefore(
	ctx context.Context, w *stream.Worker, s *stream.Stream, k *stream.Suggester,
	typed, suffix []byte, all []suggest.Candidate,
) (rows int, err error) {
	texts := make([][]byte, len(all))
	for i, c := range all {
		texts[i] = before(suffix, typed, []byte(c.Text))
	}
	nats, rows, err := w.Costs(ctx, s, k, texts)
	if err != nil {
		return rows, err
	}
	costs := map[string]float64{}
	for i, c := range all {
		costs[c.Text] = nats[i]
	}
	slices.SortStableFunc(all, func(a, b suggest.Candidate) int {
		return cmp.Compare(costs[a.Text], costs[b.Text])
	})
	return rows, nil
}

func (g *generation) tell(d *draft, f filling) {
	p := *f.of.kept
	if f.end < len(p.Text) {
		p.FinishReason = FinishStop
	}
	p.Text = p.Text[:f.end]
	p.LogProbs, p.Top = p.LogProbs[:min(f.end, len(p.LogProbs))], p.Top[:min(f.end, len(p.Top))]
	g.engine.observer.Completed(p.FinishReason, p.Tokens)
	g.queue(d, p)
}

// fillingEnds returns offsets at which a text may end before a suffix. The text may end where it
// repeats the beginning of the suffix, where a line ends, and at the end of the text.
func fillingEnds(text, suffix []byte) []int {
	ends := repeats(text, suffix)
	for at := 1; at < len(text); at++ {
		if text[at] == '\n' {
			ends = append(ends, at)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	return append(ends[:min(len(ends), fillEnds-1)], len(text))
}

func repeats(text, suffix []byte) (at []int) {
	begin := []byte(beginning(string(suffix)))
	if len(begin) == 0 {
		return nil
	}
	for from := 0; ; {
		i := bytes.Index(text[from:], begin)
		if i < 0 {
			return at
		}
		at, from = append(at, from+i), from+i+1
	}
}

// beginningMax is the maximum length of the result of beginning, in characters.
const beginningMax = 64

// beginning returns the first part of a suffix, up to the end of the first line that is not blank.
// The text before the suffix should not repeat this part. If all lines are blank, the result is
// empty.
func beginning(suffix string) string {
	text := strings.TrimLeftFunc(suffix, unicode.IsSpace)
	line, _, _ := strings.Cut(text, "\n")
	if line = strings.TrimRightFunc(line, unicode.IsSpace); line == "" {
		return ""
	}
	all := []rune(suffix[:len(suffix)-len(text)] + line)
	return string(all[:min(len(all), beginningMax)])
}
