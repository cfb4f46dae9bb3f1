// Package lmserve runs an adaptive language model inside a Go program. The model is a
// Transformer-XL whose fast weights learn the text that it scores, by Sparse-MetaNet. The server
// of this module, cmd/lmserve, serves the same model over HTTP, with sessions, storage and
// scheduling.
//
// A stream predicts every byte of its text from the bytes before, and learns the text in chunks:
// each byte is scored before the model learns it. The scores are a function of the model, the
// settings and the text, to the bit. They depend neither on the pieces in which the text is fed,
// nor on the number of threads. On processors of different kinds they may differ by rounding.
//
// This program reads a log and prints its strange lines:
//
//	package main
//
//	import (
//		"fmt"
//		"io"
//		"log"
//		"os"
//
//		"github.com/lmserve/lmserve"
//	)
//
//	func main() {
//		model, err := lmserve.Embedded("swift", lmserve.Options{Threads: 2})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer model.Close()
//		stream, err := model.Open(model.Settings())
//		if err != nil {
//			log.Fatal(err)
//		}
//		watch := stream.Lines(func(l lmserve.Line) {
//			if l.Warm && l.Rank >= 100 {
//				fmt.Printf("line %d, one of %d: %s\n", l.Number, l.Rank, l.Text)
//			}
//		})
//		if _, err := io.Copy(watch, os.Stdin); err != nil {
//			log.Fatal(err)
//		}
//	}
package lmserve

import (
	"fmt"
	"io"
	"sync"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Options configure a loaded model.
type Options struct {
	// Threads is the number of threads that compute a piece of text, including the caller's; 0
	// means 1. Scores do not depend on it.
	Threads int
}

const threadsMax = 256

// Validate returns an error for the first option that is out of range.
func (o Options) Validate() error {
	if o.Threads < 0 || o.Threads > threadsMax {
		return fmt.Errorf("lmserve: threads is %d, expected 1 to %d, or 0 for one "+
			"thread", o.Threads, threadsMax)
	}
	return nil
}

// Model is a loaded model, which any number of streams can share. Many goroutines may use the model
// and its streams at once. Only one goroutine at a time may use one stream. A call that computes
// borrows a worker from the model: threads, and memory for activations and gradients. The model
// keeps its workers. Their number is the largest number of concurrent calls so far.
type Model struct {
	model   *model.Model
	threads int

	mu   sync.Mutex
	idle []*stream.Worker
}

// Default returns the larger of the two embedded networks. It predicts bytes, and has 4.4 million
// weights.
func Default(o Options) (*Model, error) { return load(model.Default, o) }

// Embedded returns an embedded model by name. "default" is the model of Default. "swift", with 0.6
// M weights, is ten times as fast as "default" and needs 1.4 MB for each stream. "counts" has no
// network: it predicts by counts of the stream's text (MethodCounts).
func Embedded(name string, o Options) (*Model, error) {
	return load(func() (*model.Model, error) { return model.Place{Name: name}.Load() }, o)
}

// Load reads a model from a file in the format that the command 'lmserve train' writes.
func Load(path string, o Options) (*Model, error) {
	return load(func() (*model.Model, error) { return model.Load(path) }, o)
}

func load(read func() (*model.Model, error), o Options) (*Model, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m, err := read()
	if err != nil {
		return nil, err
	}
	return &Model{model: m, threads: max(1, o.Threads)}, nil
}

// Close ends the model's threads. The model's streams must not be in use, and must not be used
// afterwards.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.idle {
		w.Close()
	}
	m.idle = nil
}

// ID returns the model's name and the beginning of the hash of its weights.
func (m *Model) ID() string { return m.model.ID() }

// Settings returns the settings that the model was trained and tuned for.
func (m *Model) Settings() Settings { return Settings(stream.Defaults(m.model)) }

// Open returns a new stream, without text. An error names the setting that does not fit.
func (m *Model) Open(set Settings) (*Stream, error) {
	chosen := stream.Settings(set.copy())
	if err := chosen.Validate(m.model); err != nil {
		return nil, fmt.Errorf("lmserve: settings: %w", err)
	}
	return &Stream{model: m, state: stream.New(m.model, chosen)}, nil
}

// Restore reads a stream of this model that Snapshot wrote. Later results are bit-identical to
// those of the original stream, if the processor uses the same instructions. An error says where
// the snapshot is damaged, or that it belongs to another model.
func (m *Model) Restore(r io.Reader) (*Stream, error) {
	f, err := weights.Read(r, weights.Limits{})
	if err != nil {
		return nil, err
	}
	return m.restore(f)
}

func (m *Model) restore(f *weights.File) (*Stream, error) {
	set, err := stream.SettingsOf(f.Stored())
	if err != nil {
		return nil, err
	}
	state, _, err := stream.Restore(m.model, set, f.Stored())
	if err != nil {
		return nil, err
	}
	return &Stream{model: m, state: state}, nil
}

func (m *Model) compute(f func(w *stream.Worker)) {
	w := m.borrow()
	f(w)
	m.mu.Lock()
	m.idle = append(m.idle, w)
	m.mu.Unlock()
}

// borrow returns the idle worker that was used last, because it may still have the stream's current
// chunk. If no worker is idle, borrow makes a new one.
func (m *Model) borrow() *stream.Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.idle); n > 0 {
		w := m.idle[n-1]
		m.idle = m.idle[:n-1]
		return w
	}
	return stream.NewWorker(m.model, m.threads)
}

// Stream is the text fed so far, with the state of the model after learning this text.
type Stream struct {
	model     *Model
	state     *stream.Stream
	suggester stream.Suggester
}

// Feed scores text that follows the stream's text so far, and learns this new text. It returns the
// new text's information in bits: fewer bits mean a better prediction. In a model of words, a word
// is scored only when white space follows.
func (s *Stream) Feed(text []byte) (bits float64) { return s.FeedEach(text, nil) }

// FeedEach is like Feed, and also calls the function `each` for every byte, with the byte's
// information in bits. The argument static is the information under the static model: the slow
// weights without companion. Without Settings.Baseline, static is 0. In a model of words, the last
// byte of the white space after a word has the word's information.
func (s *Stream) FeedEach(text []byte, each func(b byte, bits, static float64)) (bits float64) {
	before := s.state.Tally.Bits
	s.model.compute(func(w *stream.Worker) {
		w.Feed(s.state, text, func(_ []byte, scores stream.Scores) {
			if each != nil {
				scores.EachByte(each)
			}
		})
	})
	return s.state.Tally.Bits - before
}

// Costs contains the information of a text in bits, under three models.
type Costs struct {
	Bits     float64 // as returned by Feed
	Network  float64 // without the companion; equals Bits if there is no companion
	Baseline float64 // under the static model; 0 without Settings.Baseline
}

// FeedCosts feeds text like Feed, and returns its costs with the companion, without the companion,
// and under the static model.
func (s *Stream) FeedCosts(text []byte) (c Costs) {
	before, static := s.state.Tally.Bits, s.state.Baseline.Bits
	s.model.compute(func(w *stream.Worker) {
		w.Feed(s.state, text, func(_ []byte, scores stream.Scores) {
			if scores.Network == nil {
				scores.Network = scores.NLL
			}
			c.Network += scores.NetworkBits()
		})
	})
	c.Bits, c.Baseline = s.state.Tally.Bits-before, s.state.Baseline.Bits-static
	return c
}

// Write feeds text like Feed. It never returns an error.
func (s *Stream) Write(text []byte) (int, error) {
	s.Feed(text)
	return len(text), nil
}

// Tally returns the totals of all tokens so far, with their bits. In a model of words, a word
// counts when white space follows.
func (s *Stream) Tally() tokenizer.Tally { return s.state.Tally }

// Baseline returns the totals of the stream's text with its bits under the static model. They are
// zero without Settings.Baseline.
func (s *Stream) Baseline() tokenizer.Tally { return s.state.Baseline }

// Settings returns a copy of the settings with which the stream was opened.
func (s *Stream) Settings() Settings { return Settings(s.state.Settings).copy() }

// Complete samples tokens that follow the stream's text and the prompt. It returns their text
// without the prompt. A word at the end of the prompt counts as complete. The stream does not
// change. To avoid repetitions in the sampled text, set p.Dry to txl.DryDefault.
func (s *Stream) Complete(prompt []byte, tokens int, p txl.Sampling) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if tokens < 1 {
		return nil, fmt.Errorf("lmserve: tokens is %d, expected 1 or more", tokens)
	}
	m := s.model.model
	text, drawn := []byte{}, 0
	s.model.compute(func(w *stream.Worker) {
		reader := s.state.Frozen()
		w.Feed(reader, prompt, nil)
		w.Sample(reader, txl.NewSampler(p, m.Tokenizer.Vocab()), func(t stream.Token) bool {
			text, drawn = append(text, t.Text...), drawn+1
			return drawn < tokens
		})
	})
	return text, nil
}

// Snapshot writes the stream's whole state for Model.Restore. It returns an error if w fails, or if
// a number of the state is not finite. This error names the first such number.
func (s *Stream) Snapshot(w io.Writer) error {
	f, err := s.state.Snapshot()
	if err != nil {
		return err
	}
	return weights.Write(w, f)
}

// Fork returns an independent stream with the same text and state.
func (s *Stream) Fork() (*Stream, error) {
	f, err := s.state.Snapshot()
	if err != nil {
		return nil, err
	}
	return s.model.restore(f)
}
