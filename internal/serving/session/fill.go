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

// This file fills the place between a prompt and a suffix. Texts are sampled behind the prompt, and
// each may end at some of its places. An end is worth what prompt, text and suffix cost together:
// P(text) P(suffix | prompt, text), of which the first bytes of the suffix are computed. A model of
// bytes says that exactly.

// Bounds of what a text before a suffix may cost.
const (
	fillTexts       = 3   // that are sampled, or more if the request asks for more
	fillFirstBytes  = 128 // of the first of them, which is sampled as the request says
	fillOtherBytes  = 48  // of each other, which ends with its line
	fillEnds        = 4   // of a text
	fillSuffixBytes = 32  // that are scored
	fillCandidates  = 10  // suggestions that are ranked, or more if the request asks for more
	// fillTemperature is the least one of the other texts: at 0 all would be alike.
	fillTemperature = 0.6
)

// fills reports whether texts are chosen by a suffix.
func (g *generation) fills() bool {
	return len(g.suffix) > 0 && !g.echo && g.maxTokens > 0 && !g.s.model.OfWords()
}

// prepareFill shortens long prompts before a suffix, and where texts are not chosen by the suffix lets
// them end before its beginning.
func (g *generation) prepareFill() {
	if g.suffix == nil {
		return
	}
	if g.echo || g.s.model.OfWords() {
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

// filling is a text up to one of its ends.
type filling struct {
	of   *draft
	end  int
	nats float64 // of the text and the suffix behind it
}

// fillLocked writes the texts that fit best between what was read and the suffix.
func (g *generation) fillLocked(
	ctx context.Context, read *stream.Stream, drafts []*draft,
) error {
	var all []filling
	for i := range max(fillTexts, len(drafts)) {
		d := g.fillDraft(i)
		if err := g.writeLocked(ctx, read.Frozen(), d); err != nil {
			return err
		}
		for _, end := range fillingEnds(d.kept.Text, g.suffix) {
			f := filling{of: d, end: end}
			text := slices.Concat(d.kept.Text[:end], g.suffix[:min(len(g.suffix), fillSuffixBytes)])
			err := g.costLocked(ctx, read, text, d, &f.nats)
			if err != nil {
				return err
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b filling) int { return cmp.Compare(a.nats, b.nats) })
	for i, d := range drafts {
		g.tell(d, all[min(i, len(all)-1)])
	}
	return g.catchUp(ctx)
}

// fillDraft makes the i-th text that is sampled to choose among.
func (g *generation) fillDraft(i int) *draft {
	one := g.plan
	one.n = 1
	if one.maxTokens = min(one.maxTokens, fillFirstBytes); i > 0 {
		one.maxTokens = min(one.maxTokens, fillOtherBytes)
		if g.sampling.Temperature == 0 && g.seed == nil {
			one.seed = new(uint64) // who asks for the likeliest text asks for the same one again
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

// costLocked computes what a text costs behind a frozen stream, which stays as it is.
func (g *generation) costLocked(
	ctx context.Context, read *stream.Stream, text []byte, d *draft, nats *float64,
) error {
	if len(text) > read.Room() { // then chunks end in it
		read = read.Frozen()
	}
	for len(text) > 0 {
		err := g.turnLocked(ctx, func(w *stream.Worker) {
			n, cost := cost(w, read, text)
			*nats += cost
			text = text[n:]
		})
		if g.broken = math.IsNaN(*nats); err == nil {
			err = g.endTurnLocked(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cost scores as much of a text as the chunk has room for, and feeds it if there is more. It returns
// how many bytes that are, and their negative log-likelihood in nats.
func cost(w *stream.Worker, s *stream.Stream, text []byte) (read int, nats float64) {
	scores := w.Score(s, text)
	for _, nll := range scores.NLL {
		nats += float64(nll)
	}
	if read = len(scores.Text); read < len(text) {
		w.Commit(s, scores)
		w.Settle(s)
	}
	return read, nats
}

// rankBefore puts candidates behind a stream and a text that was typed in the order of what each
// costs together with a suffix behind it. The stream stays as it is.
func rankBefore(
	w *stream.Worker, s *stream.Stream, typed, suffix []byte, all []suggest.Candidate,
) {
	nats := map[string]float64{}
	for _, c := range all {
		text := slices.Concat(typed, []byte(c.Text), suffix[:min(len(suffix), fillSuffixBytes)])
		read := s
		if len(text) > read.Room() {
			read = s.Frozen()
		}
		for len(text) > 0 {
			n, cost := cost(w, read, text)
			nats[c.Text] += cost
			text = text[n:]
		}
	}
	slices.SortStableFunc(all, func(a, b suggest.Candidate) int {
		return cmp.Compare(nats[a.Text], nats[b.Text])
	})
}

// tell writes a text that was chosen.
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

// fillingEnds are places where a text may end before a suffix: where it repeats the beginning of the
// suffix, where a line ends, and its end.
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

// repeats are the places where a text repeats the beginning of a suffix.
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

// beginningMax is the most characters of a suffix that a completion repeats before it may end.
const beginningMax = 64

// beginning returns what a text that comes before a suffix should not repeat: the suffix up to the
// end of its first line that is not blank, "" if all are.
func beginning(suffix string) string {
	text := strings.TrimLeftFunc(suffix, unicode.IsSpace)
	line, _, _ := strings.Cut(text, "\n")
	if line = strings.TrimRightFunc(line, unicode.IsSpace); line == "" {
		return ""
	}
	all := []rune(suffix[:len(suffix)-len(text)] + line)
	return string(all[:min(len(all), beginningMax)])
}
