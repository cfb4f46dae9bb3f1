package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/session"
)

// logProbsBlock is the block `logprobs` of OpenAI's completions, as it grows: the members of its
// four lists, already in JSON and separated by commas. As values of Go they would take many times
// the memory. The zero value has no tokens.
type logProbsBlock struct {
	tokens, logProbs, top, offsets []byte
}

// add adds the tokens of a piece, before which the text has so many characters. The first token of
// a prompt has no scores.
func (b *logProbsBlock) add(p session.Piece, chars int, first bool) {
	for at := 0; at < len(p.Text); {
		_, size := utf8.DecodeRune(p.Text[at:])
		for ; size > 0; size-- {
			id := int32(p.Text[at])
			b.tokens = append(separated(b.tokens), tokenNames[id]...)
			b.offsets = strconv.AppendInt(separated(b.offsets), int64(chars), 10)
			b.logProbs, b.top = separated(b.logProbs), separated(b.top)
			if first && at == 0 {
				b.logProbs, b.top = append(b.logProbs, "null"...), append(b.top, "null"...)
			} else {
				b.logProbs = appendNumber(b.logProbs, p.LogProbs[at])
				b.top = appendCandidates(b.top, p, at)
			}
			at++
		}
		chars++
	}
}

// json gives the block.
func (b *logProbsBlock) json() json.RawMessage {
	const names = `{"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]}`
	size := len(names) + len(b.tokens) + len(b.logProbs) + len(b.top) + len(b.offsets)
	out := append(make([]byte, 0, size), `{"tokens":[`...)
	out = append(append(out, b.tokens...), `],"token_logprobs":[`...)
	out = append(append(out, b.logProbs...), `],"top_logprobs":[`...)
	out = append(append(out, b.top...), `],"text_offset":[`...)
	return append(append(out, b.offsets...), `]}`...)
}

// appendCandidates appends the likeliest tokens at a token of a piece, and the token itself if it
// is none of these: whoever asks whether the token was the likeliest compares its value in this
// list.
func appendCandidates(list []byte, p session.Piece, at int) []byte {
	own := session.Candidate{ID: int32(p.Text[at]), LogProb: p.LogProbs[at]}
	var all []session.Candidate
	if p.Top != nil {
		all = p.Top[at]
	}
	if !slices.ContainsFunc(all, func(c session.Candidate) bool { return c.ID == own.ID }) {
		all = append(slices.Clip(all), own)
	}
	list = append(list, '{')
	for i, c := range all {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, tokenNames[c.ID]...), ':')
		list = appendNumber(list, c.LogProb)
	}
	return append(list, '}')
}

// separated makes room for another member of a list.
func separated(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}

// appendNumber appends a finite number, with as many digits as tell it from all others.
func appendNumber(list []byte, x float64) []byte {
	return strconv.AppendFloat(list, x, 'g', -1, 64)
}

// tokenNames are the names of all tokens, as JSON strings: the character itself, or for a byte that
// is none by itself OpenAI's form of such a byte, as `bytes:\xc3`.
var tokenNames = func() (names [256][]byte) {
	for id := range names {
		name := string(rune(id))
		if id >= utf8.RuneSelf {
			name = fmt.Sprintf(`bytes:\x%02x`, id)
		}
		names[id], _ = json.Marshal(name) // a string always has a form in JSON
	}
	return names
}()
