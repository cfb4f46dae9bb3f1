package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/weights"
)

// This file checks and restores the parts of a snapshot that describe the text: the tally and the
// pending word.

// checkText returns an error if the counts of bytes, tokens and characters contradict each other.
func (h *header) checkText(words bool) error {
	t := &h.Tally
	if words {
		return h.checkWords()
	}
	switch {
	case t.Tokens < 0 || t.Bytes != t.Tokens:
		return fmt.Errorf("tally has %d bytes and %d tokens, expected two equal numbers, 0 or "+
			"more", t.Bytes, t.Tokens)
	case t.Chars < 0 || t.Chars > t.Bytes:
		return fmt.Errorf("tally.chars is %d, expected 0 to %d", t.Chars, t.Bytes)
	case h.Text != nil || t.Unknown != 0 || t.UnknownBytes != 0 || t.UnknownChars != 0 ||
		t.UnknownBits != 0 || h.BaselineUnknownBits != 0:
		return fmt.Errorf("tally has unknown words, expected none for a model of bytes")
	}
	return nil
}

// checkWords does the work of checkText for streams whose tokens are words. Each word has at least
// one byte.
func (h *header) checkWords() error {
	t := &h.Tally
	for _, c := range []struct {
		name        string
		n, from, to int64
	}{
		{"tokens", t.Tokens, 0, t.Bytes},
		{"chars", t.Chars, 0, t.Bytes},
		{"unknown", t.Unknown, 0, t.Tokens},
		{"unknown_bytes", t.UnknownBytes, t.Unknown, t.Bytes},
		{"unknown_chars", t.UnknownChars, 0, min(t.UnknownBytes, t.Chars)},
	} {
		if c.n < c.from || c.n > c.to {
			return fmt.Errorf("tally.%s is %d, expected %d to %d", c.name, c.n, c.from, c.to)
		}
	}
	switch {
	case h.Text == nil:
		return fmt.Errorf("found no field \"text\", expected one for a model of words")
	case (h.Text.Line || h.Text.Ended != 0) &&
		(t.Tokens == 0 || t.Tokens%int64(h.Settings.Chunk) != 0):
		return fmt.Errorf("text.line is true or text.ended is above 0, which is valid only after " +
			"a full chunk")
	case !(t.UnknownBits >= 0) || !(h.BaselineUnknownBits >= 0) ||
		!h.Settings.Baseline && h.BaselineUnknownBits != 0:
		return fmt.Errorf(
			"the cost of unknown words is %v bits for the model and %v bits for the baseline, "+
				"expected 0 or more; if there is no baseline, its cost must be 0",
			t.UnknownBits, h.BaselineUnknownBits)
	}
	return nil
}

// readText restores the incomplete last word of the text. If tokens are bytes, p is nil.
func (s *Stream) readText(f *weights.Stored, p *pending) error {
	if p == nil {
		return nil
	}
	t, ok := f.Tensor(tensorWord)
	if !ok {
		return fmt.Errorf("tensor %q is missing", tensorWord)
	}
	word, err := readBytes(t, s.model.Tokenizer.PendingMax())
	if err != nil {
		return err
	}
	text := tokenizer.Pending{
		Space: p.Space, Word: word, More: p.More, Line: p.Line, Chars: p.Chars,
		Ended: p.Ended,
	}
	if err := text.Check(); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	s.Text.CopyFrom(&text)
	var tokens tokenizer.Tokens
	var due tokenizer.Pending
	due.CopyFrom(&text)
	if most := s.model.Tokenizer.DueMax(); due.Due() {
		if s.model.Tokenizer.Next(&tokens, &due, nil, most); due.Due() {
			return fmt.Errorf("text: found more than %d tokens that wait for the next chunk", most)
		}
	}
	return nil
}
