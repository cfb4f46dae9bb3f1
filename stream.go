package lmserve

import (
	"fmt"
	"io"
	"math"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Stream is a text so far, and what the model has learnt from it.
type Stream struct {
	model *Model
	state *stream.Stream
}

// Feed scores text that follows the stream's text so far, and learns from it. It returns the
// text's information in bits: the less, the better the model knew it.
func (s *Stream) Feed(text []byte) (bits float64) { return s.FeedEach(text, nil) }

// FeedEach is Feed, and tells each of every byte: the byte's information in bits, and the same
// under the model as it is when it learns nothing, if Settings.Baseline asks for that, else 0.
func (s *Stream) FeedEach(text []byte, each func(b byte, bits, static float64)) (bits float64) {
	before := s.state.Tally.Bits
	s.model.compute(func(w *stream.Worker) {
		w.Feed(s.state, text, func(piece []byte, scores stream.Scores) {
			for i, b := range piece {
				if each == nil {
					break
				}
				static := 0.
				if scores.Baseline != nil {
					static = float64(scores.Baseline[i]) / math.Ln2
				}
				each(b, float64(scores.NLL[i])/math.Ln2, static)
			}
		})
	})
	return s.state.Tally.Bits - before
}

// Write is Feed for an io.Writer. It never fails.
func (s *Stream) Write(text []byte) (int, error) {
	s.Feed(text)
	return len(text), nil
}

// Tally counts all text so far, and its bits.
func (s *Stream) Tally() tokenizer.Tally { return s.state.Tally }

// Baseline counts the same text by its bits under the model as it is when it learns nothing. It
// is empty unless Settings.Baseline asks for it.
func (s *Stream) Baseline() tokenizer.Tally { return s.state.Baseline }

// Settings are those that the stream was opened with.
func (s *Stream) Settings() Settings { return s.state.Settings }

// Complete samples tokens (bytes, for a byte-level model) that follow the stream's text and the
// prompt, and returns them without the prompt. The stream stays as it is.
func (s *Stream) Complete(prompt []byte, tokens int, p txl.Sampling) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if tokens < 1 {
		return nil, fmt.Errorf("lmserve: tokens is %d, expected 1 or more", tokens)
	}
	m := s.model.model
	ids := make([]int32, 0, min(tokens, stream.MaxChunk))
	s.model.compute(func(w *stream.Worker) {
		reader := s.state.Frozen()
		w.Feed(reader, prompt, nil)
		w.Generate(reader, txl.NewSampler(p, m.Tokenizer.Vocab()), func(id int32, _ float32) bool {
			ids = append(ids, id)
			return len(ids) < tokens
		})
	})
	return m.Tokenizer.Decode(nil, ids), nil
}

// Snapshot writes the stream's whole state, for Model.Restore. An error is w's, or says which
// number of the state is not finite.
func (s *Stream) Snapshot(w io.Writer) error {
	f, err := s.state.Snapshot()
	if err != nil {
		return err
	}
	return weights.Write(w, f)
}

// Fork returns a stream with the same text and the same state, which goes its own way.
func (s *Stream) Fork() (*Stream, error) {
	f, err := s.state.Snapshot()
	if err != nil {
		return nil, err
	}
	return s.model.restore(f)
}
