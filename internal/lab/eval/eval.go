// Package eval scores the same documents with several methods of adaptation on the same weights.
package eval

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/documents"
)

// Values of Options.Reset: when a stream's state is reset.
const (
	ResetDocument = "document" // every document is a separate stream
	ResetNever    = "never"    // all documents are one stream
)

// Values of Options.KV: how keys and values of the memory follow changes of their fast weights.
const (
	KVExact  = "exact"  // keys and values are recomputed, as in sessions
	KVCached = "cached" // keys and values are kept, see txl.Reuse
)

// WithCompanion after the name of a method adds a companion, see stream.Settings. Without
// WithCompanion the method has no companion. Method counts is a companion alone, with and without
// WithCompanion.
const WithCompanion = "+companion"

// Options say what to score and how. The zero value scores every byte of each document as a
// separate stream. Its methods are static and, if the model has meta-learners, sparse-meta, each
// with and without a companion.
type Options struct {
	Methods  []string // optionally with WithCompanion; gain and cost are relative to the first
	Reset    string   // ResetDocument (also "") or ResetNever
	Shuffle  *uint64  // seed of the documents' order; nil: path order
	MaxBytes int64    // scored bytes of each document, from its beginning; 0: all
	Seed     uint64   // seed of the random masks of sparse-meta
	Threads  int      // threads that compute; 0: one
	// Settings replace the model's settings in every method that uses them. They cannot replace the
	// method itself.
	Settings setting.Values
	KV       string // KVExact (also "") or KVCached
	// Progress, if set, receives the scored bytes and the total, over all documents and methods,
	// after each chunk.
	Progress func(done, total int64)
}

// settings returns the model and the settings of a stream with the method. Method counts uses a
// separate model of bytes, even if the other methods use a different model.
func (o Options) settings(
	m *model.Model, method string,
) (*model.Model, stream.Settings, error) {
	name, companion := strings.CutSuffix(method, WithCompanion)
	if name == stream.Counts && !m.OfWords() && !m.Uniform {
		m = model.Counts()
	}
	if err := stream.Supports(m, name); err != nil {
		return nil, stream.Settings{}, fmt.Errorf("eval: methods: %w", err)
	}
	asked := o.Settings.Clone()
	asked["method"], asked["companion"] = name, companion || name == stream.Counts
	if name == stream.Counts { // gammas belong to the banks of the network's model
		delete(asked, "gammas")
	}
	set, err := stream.With(m, asked)
	set.Seed = o.Seed
	return m, set, err
}

// complete replaces zero values by defaults and returns an error for the first wrong option.
func (o Options) complete(m *model.Model) (Options, error) {
	if len(o.Methods) == 0 && m.Uniform {
		o.Methods = []string{stream.Counts}
	}
	if len(o.Methods) == 0 {
		o.Methods = []string{stream.Static}
		if m.Learner != nil {
			o.Methods = append(o.Methods, stream.SparseMeta)
		}
		for _, name := range slices.Clone(o.Methods) {
			o.Methods = append(o.Methods, name+WithCompanion)
		}
	}
	o.Reset, o.KV = cmp.Or(o.Reset, ResetDocument), cmp.Or(o.KV, KVExact)
	o.Threads = max(1, o.Threads)
	for i, method := range o.Methods {
		if slices.Contains(o.Methods[:i], method) {
			return o, fmt.Errorf("eval: methods: %s is given twice, expected each method once",
				method)
		}
		if _, _, err := o.settings(m, method); err != nil {
			return o, err
		}
	}
	switch {
	case o.KV != KVExact && o.KV != KVCached:
		return o, fmt.Errorf("eval: option kv is %q, expected %s or %s", o.KV, KVExact, KVCached)
	case o.Reset != ResetDocument && o.Reset != ResetNever:
		return o, fmt.Errorf("eval: option reset is %q, expected %s or %s", o.Reset, ResetDocument,
			ResetNever)
	case o.MaxBytes < 0:
		return o, fmt.Errorf("eval: max-bytes is %d, expected 0 (no limit) or more", o.MaxBytes)
	}
	return o, nil
}

// Validate returns an error for the first option that does not fit the model.
func (o Options) Validate(m *model.Model) error {
	_, err := o.complete(m)
	return err
}

// Directory evaluates every file below dir. If the context ends early, the result is marked as
// interrupted. It then has the finished documents and the progress in the next one.
func Directory(ctx context.Context, m *model.Model, dir string, o Options) (Result, error) {
	o, err := o.complete(m)
	if err != nil {
		return Result{}, err
	}
	files, err := list(dir, o.MaxBytes)
	if err != nil {
		return Result{}, err
	}
	if o.Shuffle != nil { // the order depends only on the number of files and the seed
		rng := rand.New(rand.NewPCG(*o.Shuffle, 0))
		rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	}
	e, err := newEvaluation(m, files, o)
	defer e.close()
	if err != nil {
		return Result{}, err
	}
	for i, f := range files {
		text, err := read(f)
		if err != nil {
			return Result{}, err
		}
		if i == 0 {
			e.warm(text)
		}
		if err := e.document(ctx, f.Name, text); err != nil {
			return e.interrupted(dir, err)
		}
	}
	res := e.result()
	res.Data = dir
	return res, nil
}

// interrupted returns the result of an evaluation that an error has ended.
func (e *evaluation) interrupted(dir string, err error) (Result, error) {
	if len(e.documents) == 0 && e.partial == nil {
		return Result{}, err
	}
	res := e.result()
	res.Data, res.Interrupted, res.Partial = dir, true, e.partial
	return res, err
}

// evaluation is the state of a call of Directory: the sums over the documents scored so far.
type evaluation struct {
	Options
	model       *model.Model
	workers     []*stream.Worker
	tracks      []*track
	done, total int64 // bytes scored and to score, over all methods

	marks     []int64 // numbers of tokens of a document at which its bits so far are recorded
	documents []Part
	partial   *Partial // progress in the interrupted document; nil: none
	curve     *average
	windows   *average
	diverged  []Divergence
}

// track is one method's run through the documents.
type track struct {
	name   string
	model  *model.Model
	set    stream.Settings
	worker *stream.Worker
	stream *stream.Stream
	whole  *meter // the meter of a stream that is never reset, else nil
	broken bool   // the stream has diverged
}

// bytesOfWord is the approximate length of a word of prose with its space. It sets the length of
// windows of a stream of words.
const bytesOfWord = 6

func newEvaluation(m *model.Model, files []documents.File, o Options) (*evaluation, error) {
	n, total := len(o.Methods), int64(0)
	for _, f := range files {
		total += f.Size
	}
	tokens, firsts := total, firstBytes
	if m.OfWords() {
		tokens, firsts = total/bytesOfWord, firstWords
	}
	e := &evaluation{Options: o, model: m, total: total * int64(n), documents: []Part{},
		diverged: []Divergence{}}
	longest := slices.MaxFunc(files, func(a, b documents.File) int {
		return cmp.Compare(a.Size,
			b.Size)
	})
	e.marks = octaves(longest.Size)
	e.curve = newAverage(firstSpans(firsts), n)
	streamMarks, window := running(tokens, total)
	if o.Reset == ResetNever {
		e.windows = newAverage(runningSpans(streamMarks, window), n)
	} else {
		e.windows = newAverage(octaveSpans(e.marks), n)
	}
	for _, method := range o.Methods {
		of, set, err := o.settings(m, method)
		if err != nil {
			return e, err
		}
		t := &track{name: method, model: of, set: set, worker: e.workerFor(of)}
		if o.Reset == ResetNever {
			t.whole = newMeter(m, streamMarks)
		}
		e.tracks = append(e.tracks, t)
	}
	return e, nil
}

// workerFor returns a worker for a track. Tracks of one model share a worker, unless keys are
// cached. Then a shared worker would lose the cached keys of one track to the next.
func (e *evaluation) workerFor(m *model.Model) *stream.Worker {
	for _, t := range e.tracks {
		if t.model == m && e.KV != KVCached {
			return t.worker
		}
	}
	w := stream.NewWorker(m, e.Threads)
	w.StaleKeys = e.KV == KVCached
	e.workers = append(e.workers, w)
	return w
}

func (e *evaluation) close() {
	for _, w := range e.workers {
		w.Close()
	}
}

// warm runs each method once over two uncounted chunks. Otherwise the first timed method would
// also pay for common one-time costs, such as pages of memory.
func (e *evaluation) warm(text []byte) {
	for _, t := range e.tracks {
		s := stream.New(t.model, t.set)
		for rest := text; len(rest) > 0 && s.Step < 2; {
			scores := t.worker.Score(s, rest)
			rest = rest[len(scores.Text):]
			t.worker.Commit(s, scores)
			t.worker.Settle(s)
		}
	}
}

// document scores one document with all methods, one after the other.
func (e *evaluation) document(ctx context.Context, name string, text []byte) error {
	doc := newPart(name, len(e.tracks))
	doc.Domain, doc.Documents, doc.Bytes = documents.Domain(name), 1, int64(len(text))
	var meters []*meter
	for k, t := range e.tracks {
		if t.stream == nil || e.Reset == ResetDocument {
			t.stream, t.broken = stream.New(t.model, t.set), false
		}
		m := newMeter(e.model, e.marks)
		meters = append(meters, m)
		before := e.done
		took, err := e.score(ctx, t, m, name, text)
		if err != nil {
			e.leave(doc, meters)
			return err
		}
		// Bytes that a diverged method has skipped count as done.
		e.progress(before + doc.Bytes - e.done)
		if t.broken {
			doc.Scores[k] = nil
			continue
		}
		doc.count(m.tally)
		doc.Scores[k].Bits, doc.Scores[k].UnknownBits = m.tally.Bits, m.tally.UnknownBits
		doc.Scores[k].Seconds = took.Seconds()
	}
	doc.derive()
	e.documents = append(e.documents, doc)
	e.curve.add(longest(meters), meters)
	if e.Reset == ResetDocument {
		e.windows.add(longest(meters), meters)
	}
	return nil
}

// longest returns the number of scored tokens of a text. It is the maximum over the methods, since
// a diverged method stops early.
func longest(meters []*meter) (n int64) {
	for _, m := range meters {
		n = max(n, m.tally.Tokens)
	}
	return n
}

// leave records the progress of the methods in an unfinished document.
func (e *evaluation) leave(doc Part, meters []*meter) {
	p := &Partial{Name: doc.Name, Bytes: doc.Bytes}
	for k, m := range meters {
		if m.tally.Tokens > 0 && !e.tracks[k].broken {
			p.Scores = append(p.Scores, PartialScore{
				Method: e.Methods[k], Bytes: m.tally.Bytes, Tokens: m.tally.Tokens,
				Bits:        m.tally.Bits,
				BitsPerByte: m.tally.BitsPerByte(), Perplexity: m.tally.Perplexity(),
			})
		}
	}
	if len(p.Scores) > 0 {
		e.partial = p
	}
}

// score feeds the text to a track's stream until its end or until the method diverges. The time
// is that of feeding alone.
func (e *evaluation) score(ctx context.Context, t *track, m *meter, name string,
	text []byte) (took time.Duration, err error) {
	if t.broken {
		return 0, nil
	}
	f := feeder{model: t.model, worker: t.worker, meter: m, visit: func(scores stream.Scores) {
		if t.whole != nil {
			t.whole.add(scores.Tokens, scores.NLL)
		}
		e.progress(int64(len(scores.Text)))
	}}
	why, err := f.feed(ctx, t.stream, text)
	if why != "" {
		t.broken = true
		e.diverged = append(e.diverged, Divergence{t.name, name, m.tally.Bytes, why})
	}
	return f.took, err
}

func (e *evaluation) progress(bytes int64) {
	e.done += bytes
	if e.Progress != nil && bytes > 0 {
		e.Progress(e.done, e.total)
	}
}

func (e *evaluation) result() Result {
	words := e.model.OfWords()
	res := Result{
		Model: e.model.ID(), Words: words, Settings: e.Settings, Methods: e.Methods, Reset: e.Reset,
		Shuffle: e.Shuffle, MaxBytes: e.MaxBytes, Seed: e.Seed, KV: e.KV, Threads: e.Threads,
		Documents: e.documents, Domains: []Part{}, Total: newPart("total", len(e.tracks)),
		Curve: e.curve.points(words), Divergence: e.diverged,
	}
	domains := map[string]int{} // indexes in res.Domains
	for _, doc := range e.documents {
		at, ok := domains[doc.Domain]
		if !ok {
			at = len(res.Domains)
			domains[doc.Domain] = at
			res.Domains = append(res.Domains, newPart(doc.Domain, len(e.tracks)))
		}
		res.Domains[at].add(doc)
		res.Total.add(doc)
	}
	slices.SortFunc(res.Domains, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
	for i := range res.Domains {
		res.Domains[i].derive()
	}
	res.Total.derive()
	if e.Reset == ResetNever {
		var whole []*meter
		for _, t := range e.tracks {
			whole = append(whole, t.whole)
		}
		e.windows.add(longest(whole), whole)
	}
	res.Windows = e.windows.points(words)
	return res
}
