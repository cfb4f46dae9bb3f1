package eval

import (
	"slices"
	"strings"
)

// spelling counts which bytes follow the preceding bytes of a token. Each different token counts
// once. The probabilities are interpolated over contexts of up to spellingOrder bytes, as in Witten
// and Bell (1991).
type spelling map[string]*letters

// letters counts bytes, or the end of the token, in a context.
type letters struct {
	total float64
	of    []letter
}

type letter struct {
	b int // a byte or tokenEnds
	n float64
}

const (
	tokenEnds     = 256
	spellingOrder = 4
)

// spellingContexts returns the contexts after the beginning of a token, shortest first. A zero
// byte precedes a token.
func spellingContexts(text string) (contexts [spellingOrder + 1]string) {
	text = "\x00" + text
	for i := range contexts {
		contexts[i] = text[max(0, len(text)-i):]
	}
	return contexts
}

// letterAt returns byte i of a token, or tokenEnds after the last byte.
func letterAt(token string, i int) int {
	if i == len(token) {
		return tokenEnds
	}
	return int(token[i])
}

func (s spelling) learn(token string) {
	for i := range len(token) + 1 {
		b := letterAt(token, i)
		contexts := spellingContexts(token[:i])
		for _, context := range contexts[:min(i+1, spellingOrder)+1] {
			of := s[context]
			if of == nil {
				of = &letters{}
				s[strings.Clone(context)] = of
			}
			at := slices.IndexFunc(of.of, func(l letter) bool { return l.b == b })
			if at < 0 {
				at, of.of = len(of.of), append(of.of, letter{b: b})
			}
			of.of[at].n++
			of.total++
		}
	}
}

// next returns the probabilities of a token's next byte or end.
func (s spelling) next(text string) (p [tokenEnds + 1]float64) {
	for b := range p {
		p[b] = 1. / (tokenEnds + 1)
	}
	contexts := spellingContexts(text)
	for _, context := range contexts[:min(len(text)+1, spellingOrder)+1] {
		of := s[context]
		if of == nil {
			break
		}
		kinds := float64(len(of.of))
		for b := range p {
			p[b] *= kinds / (of.total + kinds)
		}
		for _, l := range of.of {
			p[l.b] += l.n / (of.total + kinds)
		}
	}
	return p
}

// probability returns the probability of a whole token.
func (s spelling) probability(token string) float64 {
	return s.begins(token) * s.one(token, tokenEnds)
}

// begins returns the probability of a token that begins with a text. It is above 0 also for long
// texts.
func (s spelling) begins(text string) float64 {
	p := 1.
	for i := range len(text) {
		p *= s.one(text[:i], int(text[i]))
	}
	return max(p, 1e-200)
}

// one returns the probability of one byte, or the end, after the beginning of a token.
func (s spelling) one(text string, b int) float64 {
	p := 1. / (tokenEnds + 1)
	contexts := spellingContexts(text)
	for _, context := range contexts[:min(len(text)+1, spellingOrder)+1] {
		of := s[context]
		if of == nil {
			break
		}
		kinds := float64(len(of.of))
		p *= kinds
		if at := slices.IndexFunc(of.of, func(l letter) bool { return l.b == b }); at >= 0 {
			p += of.of[at].n
		}
		p /= of.total + kinds
	}
	return p
}
