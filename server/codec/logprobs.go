package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// logProbsBlock builds the `logprobs` object of an answer in OpenAI's form. Each list holds JSON
// text, with commas between the members, because Go values would take many times the memory. The
// zero value has no tokens.
type logProbsBlock struct {
	tokens, logProbs, top, offsets []byte
}

// tokenScore is a token and its log-probabilities. The first token of a prompt has none, and scored
// is then false.
type tokenScore struct {
	own    session.Candidate
	top    []session.Candidate
	scored bool
	chars  int // number of characters before the token
}

// add appends a token. The function name returns a token's name as a JSON string.
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

// appendCandidates appends a JSON object with the log-probabilities of the likeliest tokens. It
// adds the token itself if necessary, so that a reader can compare the token with the likeliest
// tokens.
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

func separated(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}

func appendNumber(list []byte, x float64) []byte {
	return strconv.AppendFloat(list, x, 'g', -1, 64)
}

// byteNames maps each byte to its name, a JSON string. The name is the character, or OpenAI's form
// `bytes:\xc3` if the byte alone is not UTF-8.
var byteNames = func() (names [256][]byte) {
	for id := range names {
		names[id] = quoted([]byte{byte(id)})
	}
	return names
}()

func byteName(id int32) []byte { return byteNames[id] }

// quoted returns a token's name as a JSON string. The name is the token's text, or OpenAI's form
// `bytes:\xc3` if the text is not UTF-8.
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
