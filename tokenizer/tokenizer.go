// Package tokenizer turns text into ids and back, and keeps the account of
// bytes, characters and tokens that bits per character are computed from.
package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kindBytes names the byte-level tokenizer in a description.
const kindBytes = "bytes"

// ErrDescription says that the description of a tokenizer is malformed or of an unknown kind.
var ErrDescription = errors.New("no description of a known tokenizer")

// Bytes is the byte-level tokenizer: 256 ids, an id is the byte's value. Any
// bytes are text to it. The zero value is ready.
type Bytes struct{}

// Vocab returns the number of ids; they are 0 to Vocab-1.
func (Bytes) Vocab() int { return 256 }

// Start returns the token after which the first token of a stream is
// predicted: a newline, since streams begin where a line begins.
func (Bytes) Start() int32 { return '\n' }

// Encode appends the ids of text to dst.
func (Bytes) Encode(dst []int32, text []byte) []int32 {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst
}

// Decode appends the text of ids to dst. It panics at an id outside the
// vocabulary: ids come from Encode or from a model of the same vocabulary.
func (t Bytes) Decode(dst []byte, ids []int32) []byte {
	for i, id := range ids {
		if id < 0 || int(id) >= t.Vocab() {
			panic(fmt.Sprintf("tokenizer: id %d at position %d, expected 0 to %d", id, i, t.Vocab()-1))
		}
		dst = append(dst, byte(id))
	}
	return dst
}

// Chars returns the number of characters of text. The character of a
// byte-level model is the byte, the convention of enwik8, so that its bits per
// character can be compared with published ones.
func (Bytes) Chars(text []byte) int { return len(text) }

// description is the JSON form of a tokenizer in the metadata of a weights file.
type description struct {
	Kind string `json:"kind"`
}

// Describe returns the JSON description that Parse reads: {"kind":"bytes"}.
func (Bytes) Describe() string { return `{"kind":"` + kindBytes + `"}` }

// Parse returns the tokenizer of a description made by Describe. Anything else
// gives an error that wraps ErrDescription and says what was expected.
func Parse(text string) (Bytes, error) {
	var d description
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Bytes{}, fmt.Errorf("tokenizer: description: %w: %w", err, ErrDescription)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Bytes{}, fmt.Errorf("tokenizer: description: found more after byte %d, expected one JSON object: %w", decoder.InputOffset(), ErrDescription)
	}
	if d.Kind != kindBytes {
		return Bytes{}, fmt.Errorf("tokenizer: kind: found %q, expected %q: %w", d.Kind, kindBytes, ErrDescription)
	}
	return Bytes{}, nil
}
