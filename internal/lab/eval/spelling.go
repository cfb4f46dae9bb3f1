package eval

import (
	"slices"
	"strings"
)

// spelling counts which bytes follow a context of up to spellingOrder bytes of a token. Each
// different token counts once. Probabilities are interpolated over contexts as in Witten and Bell
// (1991).
type spelling map[string]*letters

// letters counts the bytes that follow a context. The end of a token counts as tokenEnds.
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

// spellingContexts returns the last 0 to spellingOrder bytes of the beginning of a token, shortest
// first. A zero byte marks where the token starts.
func spellingContexts(text string) (contexts [spellingOrder + 1]string) {
	text = "\x00" + text
	for i := range contexts {
		contexts[i] = text[max(0, len(text)-i):]
	}
	return contexts
}

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

// next returns the probability of each next byte of a token that begins with `text`. Element
// tokenEnds is the probability that the token ends.
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

func (s spelling) probability(token string) float64 {
	return s.begins(token) * s.one(token, tokenEnds)
}

// begins returns the probability that a token begins with `text`. The result is at least 1e-200, so
// that it stays above 0 for long texts.
func (s spelling) begins(text string) float64 {
	p := 1.
	for i := range len(text) {
		p *= s.one(text[:i], int(text[i]))
	}
	return max(p, 1e-200)
}

// one returns the probability that byte b, or tokenEnds, follows the beginning `text` of a token.
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
