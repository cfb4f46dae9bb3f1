// Package eval scores the same documents with several methods of adaptation, and with the same
// weights.
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

// Values of Options.Reset select when a stream's state is reset.
const (
	ResetDocument = "document" // every document is a separate stream
	ResetNever    = "never"    // all documents are one stream
)

// Values of Options.KV select whether the memory's keys and values follow changes of the fast
// weights.
const (
	KVExact  = "exact"  // keys and values are recomputed, as in sessions
	KVCached = "cached" // keys and values are not recomputed (see txl.Reuse)
)

// WithCompanion is a suffix of a method's name that adds a companion (see stream.Settings). Without
// this suffix the method has no companion. The method counts is a companion alone, with and without
// the suffix.
const WithCompanion = "+companion"

// Options say what to score and how. With the zero value, every document is a separate stream and
// is scored completely. The default methods are static and, if the model has meta-learners,
// sparse-meta. Each method runs with and without a companion. For a model of counts, the default
// method is counts.
type Options struct {
	// names, optionally with the suffix WithCompanion; the first method is the reference for gain
	// and cost
	Methods  []string
	Reset    string  // ResetDocument or ResetNever; "" means ResetDocument
	Shuffle  *uint64 // seed of the documents' random order; nil: path order
	MaxBytes int64   // maximum scored bytes of each document; 0: all
	Seed     uint64  // seed of the random masks of sparse-meta
	Threads  int     // number of threads; 0: one
	// Settings replace the model's settings in every method that uses them. The settings method and
	// companion have no effect, because the field Methods determines them.
	Settings setting.Values
	KV       string // KVExact or KVCached; "" means KVExact
	// Progress, if not nil, is called after each chunk. It receives the scored bytes and the total,
	// over all documents and methods.
	Progress func(done, total int64)
}

// settings returns the model and the stream settings for a method. The method counts uses a model
// of bytes without a network.
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
	if name == stream.Counts { // The setting gammas is for the banks of the network's model.
		delete(asked, "gammas")
	}
	set, err := stream.With(m, asked)
	set.Seed = o.Seed
	return m, set, err
}

// complete replaces zero values by defaults, and returns an error for the first wrong option.
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

// Directory evaluates every file below the folder dir. If the context ends early, the result is
// marked as interrupted. It then has the finished documents, and the progress in the unfinished
// document.
func Directory(ctx context.Context, m *model.Model, dir string, o Options) (Result, error) {
	o, err := o.complete(m)
	if err != nil {
		return Result{}, err
	}
	files, err := list(dir, o.MaxBytes)
	if err != nil {
		return Result{}, err
	}
	if o.Shuffle != nil { // The order depends only on the number of files and on the seed.
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
			return e.interrupted(dir, err)
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

// interrupted returns the error that ended the evaluation, with the result so far. The result is
// empty if nothing was scored.
func (e *evaluation) interrupted(dir string, err error) (Result, error) {
	if len(e.documents) == 0 && e.partial == nil {
		return Result{}, err
	}
	res := e.result()
	res.Data, res.Interrupted, res.Partial = dir, true, e.partial
	return res, err
}

type evaluation struct {
	Options
	model       *model.Model
	workers     []*stream.Worker
	tracks      []*track
	done, total int64 // bytes scored, and bytes to score, over all methods

	marks     []int64 // numbers of tokens at which a meter records a document's bits
	documents []Part
	partial   *Partial // progress in an unfinished document, or nil
	curve     *average
	windows   *average
	diverged  []Divergence
}

type track struct {
	name   string
	model  *model.Model
	set    stream.Settings
	worker *stream.Worker
	stream *stream.Stream
	whole  *meter // meter of the whole stream with ResetNever, otherwise nil
	broken bool
}

// bytesOfWord is the approximate number of bytes in an English word with the space. For a model of
// words it converts the size of the text to tokens.
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

// workerFor returns a worker for a track. Tracks of the same model share a worker, unless keys and
// values are cached. A cache belongs to one track, and a shared worker would lose the cache.
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

// warm scores two chunks with each method before the measurements. Otherwise the time of the first
// method would include one-time costs, such as memory allocation.
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

// longest returns the number of scored tokens of a text, as the maximum over the methods. A
// diverged method stops early.
func longest(meters []*meter) (n int64) {
	for _, m := range meters {
		n = max(n, m.tally.Tokens)
	}
	return n
}

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

// score feeds the text to a track's stream, until the text ends or the method diverges. The
// returned time excludes other work, such as counting.
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
	domains := map[string]int{}
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
