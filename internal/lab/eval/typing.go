package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/internal/documents"
)

// TypingOptions selects the part of each document that a simulated writer types, and the methods
// that suggest text. With the zero value, the session reads 20 KB, the writer types 500 characters,
// and the methods are those of Options by default.
type TypingOptions struct {
	Methods []string // stream methods, with or without WithCompanion; or NGram, NGramPrior
	// Read lists the numbers of bytes that a session reads before the writer begins; nil:
	// TypingRead. The writer always types the same part of the document, which begins after the
	// largest number.
	Read []int64
	// Window is the number of characters that the writer types in each document; 0: TypingWindow.
	Window    int
	Threshold float64 // minimum probability of an inline offer; 0: TypingThreshold
	Seed      uint64
	Threads   int // number of threads for computing; 0: one
	Settings  setting.Values
	// Prior is a folder of text for the method NGramPrior, which reads at most PriorBytes of the
	// text.
	Prior string
	// Progress, if set, is called after each key. The parameter `done` is the number of characters
	// typed in all documents with all methods; `total` is its final value.
	Progress func(done, total int64)
}

// TypingRead is the default of TypingOptions.Read, in bytes.
var TypingRead = []int64{20 << 10}

const (
	TypingWindow    = 500
	TypingThreshold = 0.6

	typingCandidates = 5
)

// typingModes are the modes in which the writer types. Three modes show up to five candidates, and
// differ in where a candidate may end. The last mode shows one inline candidate.
var typingModes = [...]string{
	string(suggest.Word), string(suggest.WordPlus), string(suggest.Free), TypingInline,
}

// TypingInline is the mode that shows one candidate, which may end anywhere in the text.
const TypingInline = "inline"

// calibratedModes are the modes in which the probabilities of candidates are compared with how
// often candidates are right.
var calibratedModes = []string{string(suggest.Word), string(suggest.Free)}

const calibrationStride = 4 // characters between two calibrated positions

var typingPasses = len(typingModes) + len(calibratedModes)

func (o TypingOptions) complete(m *model.Model) (TypingOptions, error) {
	all, err := o.methods().complete(m)
	if err != nil {
		return o, err
	}
	if len(o.Methods) == 0 {
		o.Methods = all.Methods
	}
	o.Threads = all.Threads
	if m.OfWords() {
		return o, fmt.Errorf("eval: model %s is a model of words, expected a model of "+
			"bytes", m.Name)
	}
	if len(o.Read) == 0 {
		o.Read = TypingRead
	}
	if o.Window == 0 {
		o.Window = TypingWindow
	}
	if o.Threshold == 0 {
		o.Threshold = TypingThreshold
	}
	switch {
	case slices.Contains(o.Methods, NGramPrior) != (o.Prior != ""):
		return o, fmt.Errorf("eval: option prior is %q, expected a folder of text if the methods "+
			"include %s, and no folder otherwise", o.Prior, NGramPrior)
	case slices.Min(o.Read) < 0:
		return o, fmt.Errorf("eval: option read is %d, expected 0 or more", slices.Min(o.Read))
	case o.Window < 1:
		return o, fmt.Errorf("eval: option window is %d, expected at least 1", o.Window)
	case !(o.Threshold >= suggest.LeastMin && o.Threshold < 1):
		return o, fmt.Errorf("eval: option threshold is %g, expected at least %g and less than "+
			"1", o.Threshold,
			suggest.LeastMin)
	}
	for _, method := range o.methods().Methods {
		of, set, err := o.methods().settings(m, method)
		if err != nil {
			return o, err
		}
		if err := stream.New(of, set).Suggests(); err != nil {
			return o, fmt.Errorf("eval: methods: %w", err)
		}
	}
	return o, nil
}

func isNGram(method string) bool { return method == NGram || method == NGramPrior }

func (o TypingOptions) methods() Options {
	methods := slices.DeleteFunc(slices.Clone(o.Methods), isNGram)
	return Options{Methods: methods, Seed: o.Seed, Threads: o.Threads, Settings: o.Settings}
}

// Validate returns an error for the first option that does not fit the model.
func (o TypingOptions) Validate(m *model.Model) error {
	_, err := o.complete(m)
	return err
}

// Typing simulates a writer who types a part of every long enough file below dir. It counts the
// keys; accepting a candidate takes one key. If ctx ends early, the result covers the text typed so
// far, and Interrupted is true.
func Typing(ctx context.Context, m *model.Model, dir string, o TypingOptions) (TypingResult,
	error) {
	o, err := o.complete(m)
	if err != nil {
		return TypingResult{}, err
	}
	files, err := list(dir, 0)
	if err != nil {
		return TypingResult{}, err
	}
	e := typing{TypingOptions: o, model: m, total: int64(len(files) * len(o.Read) * o.Window *
		len(o.Methods) * typingPasses)}
	e.res = TypingResult{
		Model: m.ID(), Data: dir, Methods: o.Methods, Settings: o.Settings, Seed: o.Seed,
		Window:    o.Window,
		Threshold: o.Threshold, Threads: o.Threads, Scores: []TypingScore{},
	}
	if o.Prior != "" {
		if e.prior, err = readPrior(ctx, o.Prior); err != nil {
			return TypingResult{}, err
		}
	}
	for _, f := range files {
		text, err := read(f)
		if err == nil {
			err = e.document(ctx, f.Name, text)
		}
		if err != nil {
			e.res.Interrupted = len(e.res.Scores) > 0
			return e.result(), err
		}
	}
	if len(e.res.Scores) == 0 && len(e.res.TooShort) > 0 {
		return e.result(), fmt.Errorf("eval: no document in directory %s is long enough: %w", dir,
			e.longest())
	}
	return e.result(), nil
}

// longest returns the error for the case that no document is long enough. It names the longest
// document and the required size.
func (e *typing) longest() error {
	most := slices.MaxFunc(e.res.TooShort, func(a, b TooShort) int {
		return cmp.Compare(a.Bytes,
			b.Bytes)
	})
	return fmt.Errorf("%s has %d bytes, expected %d bytes to read and %d characters to type: "+
		"choose smaller numbers", most.Document, most.Bytes, slices.Min(e.Read), e.Window)
}

type typing struct {
	TypingOptions
	model       *model.Model
	prior       *ngramCounts
	res         TypingResult
	calibration map[[2]string]*[calibrationBuckets]Bucket // buckets by method and mode
	done, total int64
}

// document simulates the typing of one document, for each number of bytes in Read, with all methods
// and modes. It skips numbers that leave too few characters to type.
func (e *typing) document(ctx context.Context, name string, text []byte) error {
	most := min(slices.Max(e.Read), lastCharacters(text, e.Window))
	begin := most
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin--
	}
	for _, read := range e.Read {
		if read > most {
			e.res.TooShort = append(e.res.TooShort, TooShort{name, int64(len(text)), read})
			e.progress(int64(e.Window * typingPasses * len(e.Methods)))
			continue
		}
		for _, method := range e.Methods {
			score := TypingScore{Document: name, Domain: documents.Domain(name), Read: read,
				Method: method}
			before := text[max(0, begin-read):begin]
			if err := e.score(ctx, &score, before, text[begin:]); err != nil {
				return err
			}
			e.res.Scores = append(e.res.Scores, score)
		}
	}
	return nil
}

// lastCharacters returns the offset of the last n characters of a text, or -1 if the text has
// fewer.
func lastCharacters(text []byte, n int) (at int64) {
	for at = int64(len(text)); n > 0; n-- {
		if at == 0 {
			return -1
		}
		_, size := utf8.DecodeLastRune(text[:at])
		at -= int64(size)
	}
	return at
}

type asker func(typed []byte, o suggest.Options) (suggest.Found, error)

// offers returns the candidates of one mode after the text typed so far, except the refused texts.
type offers func(typed []byte, refused []string) (suggest.Found, error)

func (e *typing) score(ctx context.Context, score *TypingScore, before, text []byte) error {
	fresh := func() (asker, error) {
		g := newNGram(nil)
		if score.Method == NGramPrior {
			g.prior = e.prior
		}
		return func(typed []byte, o suggest.Options) (suggest.Found, error) {
			return g.ask(ctx, before, typed, o)
		}, nil
	}
	if !isNGram(score.Method) {
		m, set, err := e.methods().settings(e.model, score.Method)
		if err != nil {
			return err
		}
		w := stream.NewWorker(m, e.Threads)
		defer w.Close()
		if fresh, err = e.sessions(ctx, w, m, set, before); err != nil {
			return err
		}
	}
	begin := func(mode string) (offers, error) {
		o := suggest.Options{N: typingCandidates, Unit: suggest.Unit(mode)}
		if mode == TypingInline {
			o = suggest.Options{N: 1, Unit: suggest.Free, Least: e.Threshold}
		}
		ask, err := fresh()
		return func(typed []byte, refused []string) (suggest.Found, error) {
			o.Refused = refused
			return ask(typed, o)
		}, err
	}
	for _, mode := range typingModes {
		offers, err := begin(mode)
		if err != nil {
			return err
		}
		typed, err := e.types(text, mode, offers)
		if err != nil {
			return err
		}
		score.set(mode, typed)
	}
	for _, mode := range calibratedModes {
		offers, err := begin(mode)
		if err == nil {
			err = e.calibrates(text, score.Method, mode, offers)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sessions reads a text once, and returns a function that creates sessions with this text already
// read.
func (e *typing) sessions(
	ctx context.Context, w *stream.Worker, m *model.Model, set stream.Settings, text []byte,
) (fresh func() (asker, error), err error) {
	s := stream.New(m, set)
	for len(text) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text = text[w.FeedAs(s, text, stream.Lesson{}):]
	}
	f, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	return func() (asker, error) {
		s, _, err := stream.Restore(m, set, f.Stored())
		from := session{worker: w, stream: s}
		return func(typed []byte, o suggest.Options) (suggest.Found, error) {
			return from.ask(ctx, typed, o)
		}, err
	}, nil
}

func (e *typing) progress(characters int64) {
	e.done += characters
	if e.Progress != nil {
		e.Progress(min(e.done, e.total), e.total)
	}
}

// session makes suggestions from a stream, which learns the typed text chunk by chunk.
type session struct {
	worker    *stream.Worker
	stream    *stream.Stream
	suggester stream.Suggester
	fed       int
}

// ask suggests continuations of the typed text. First it feeds the full chunks of this text to the
// stream.
func (s *session) ask(
	ctx context.Context, typed []byte, o suggest.Options,
) (suggest.Found, error) {
	for len(typed)-s.fed >= s.stream.Room() {
		s.fed += s.worker.FeedAs(s.stream, typed[s.fed:][:s.stream.Room()], stream.Lesson{})
	}
	return s.worker.Suggest(ctx, s.stream, &s.suggester, typed[s.fed:], o)
}
