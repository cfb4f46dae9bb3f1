package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// logProbsBlock is the growing `logprobs` object of OpenAI's completions. Each of its four lists
// holds encoded JSON members separated by commas, since Go values would take many times the memory.
// The zero value has no tokens.
type logProbsBlock struct {
	tokens, logProbs, top, offsets []byte
}

// tokenScore is a token of a text with its scores. The first token of a prompt has no scores.
type tokenScore struct {
	own    session.Candidate
	top    []session.Candidate
	scored bool
	chars  int // characters of text before the token
}

// add adds a token. name returns the name of a token as a JSON string.
func (b *logProbsBlock) add(t tokenScore, name func(id int32) []byte) {
	b.tokens = append(separated(b.tokens), name(t.own.ID)...)
	b.offsets = strconv.AppendInt(separated(b.offsets), int64(t.chars), 10)
	b.logProbs, b.top = separated(b.logProbs), separated(b.top)
	if !t.scored {
		b.logProbs, b.top = append(b.logProbs, "null"...), append(b.top, "null"...)
		return
	}
	b.logProbs = appendNumber(b.logProbs, t.own.LogProb)
	b.top = t.appendCandidates(b.top, name)
}

func (b *logProbsBlock) json() json.RawMessage {
	const names = `{"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]}`
	size := len(names) + len(b.tokens) + len(b.logProbs) + len(b.top) + len(b.offsets)
	out := append(make([]byte, 0, size), `{"tokens":[`...)
	out = append(append(out, b.tokens...), `],"token_logprobs":[`...)
	out = append(append(out, b.logProbs...), `],"top_logprobs":[`...)
	out = append(append(out, b.top...), `],"text_offset":[`...)
	return append(append(out, b.offsets...), `]}`...)
}

// appendCandidates appends the likeliest tokens, and the token itself if it is not among them. A
// reader finds the token's rank by comparing its value in this list.
func (t *tokenScore) appendCandidates(list []byte, name func(id int32) []byte) []byte {
	all := t.top
	if !slices.ContainsFunc(all, func(c session.Candidate) bool { return c.ID == t.own.ID }) {
		all = append(slices.Clip(all), t.own)
	}
	list = append(list, '{')
	for i, c := range all {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, name(c.ID)...), ':')
		list = appendNumber(list, c.LogProb)
	}
	return append(list, '}')
}

// separated appends a comma if the list has members.
func separated(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}

// appendNumber appends a finite number with the fewest digits that identify it.
func appendNumber(list []byte, x float64) []byte {
	return strconv.AppendFloat(list, x, 'g', -1, 64)
}

// byteNames are the names of a byte model's tokens as JSON strings: the character itself, or
// OpenAI's form `bytes:\xc3` for a byte that is not a character.
var byteNames = func() (names [256][]byte) {
	for id := range names {
		names[id] = quoted([]byte{byte(id)})
	}
	return names
}()

// byteName returns the name of a token of a byte model.
func byteName(id int32) []byte { return byteNames[id] }

// quoted returns a token's name as a JSON string: its text, or OpenAI's form of bytes if the text
// is not UTF-8.
func quoted(text []byte) []byte {
	name := string(text)
	if !utf8.Valid(text) {
		name = "bytes:"
		for _, b := range text {
			name += fmt.Sprintf(`\x%02x`, b)
		}
	}
	out, _ := json.Marshal(name) // a string always encodes as JSON
	return out
}
