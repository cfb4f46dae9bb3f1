package watch

import (
	"strings"

	"github.com/lmserve/lmserve/api/client"
)

// Marks are the parts of a line's text that make it strange: the words of its strangest span whose
// bytes cost at least as much as those of all its words on average. A word is whatever stands
// between spaces, quotes, brackets and signs that separate fields and values, so that in JSON
// without spaces, CSV, logfmt and URLs it is a value. A word belongs to the span if it touches it;
// words beside each other are marked as one. Where it is not known what bytes have cost, the whole
// span is marked. A model of words gives no bits per character: then it is the words themselves
// whose costs are compared, however long.
func Marks(l *client.LineEvent) []client.LineSpan {
	text := l.TextBytes()
	isBreak := isBreak
	if ofWords(l) { // their costs stand at white space
		isBreak = isSpace
	}
	from := min(max(int(l.Span.From), 0), len(text))
	to := min(max(int(l.Span.To), 0), len(text))
	if ofWords(l) && l.Span.From < l.Span.To { // white space has the cost of the word before it
		for from > 0 && (from == len(text) || isSpace(text[from])) {
			from--
		}
		to = min(max(to, from+1), len(text))
	}
	for from < to && isBreak(text[from]) {
		from++
	}
	for to > from && isBreak(text[to-1]) {
		to--
	}
	if from == to {
		return nil
	}
	for from > 0 && !isBreak(text[from-1]) {
		from--
	}
	for to < len(text) && !isBreak(text[to]) {
		to++
	}
	if len(l.TokenBits) < to {
		return []client.LineSpan{{From: int64(from), To: int64(to)}}
	}
	return dearWords(words(text, from, to, isBreak), costsOf(l))
}

// costs gives what some words have cost, in bits, and how many units of text they are.
type costs func(words ...client.LineSpan) (bits, units float64)

// ofWords reports whether a line was scored by a model of words.
func ofWords(l *client.LineEvent) bool { return l.BPC == nil }

// costsOf gives the costs in a line: by the byte or, of a model of words, by the word.
func costsOf(l *client.LineEvent) costs {
	if ofWords(l) {
		return func(words ...client.LineSpan) (bits, units float64) {
			for _, word := range words {
				bits += wordBits(l, word)
			}
			return bits, float64(len(words))
		}
	}
	return func(words ...client.LineSpan) (bits, units float64) {
		for _, word := range words {
			for _, b := range l.TokenBits[word.From:word.To] {
				bits += float64(b)
			}
			units += float64(word.To - word.From)
		}
		return bits, units
	}
}

// wordBits is what a word has cost under a model of words. The cost stands at the white space
// behind the word: at the newline for the last word, which costs what the others have left of the
// line's bits. Nothing is known of the word in which the text of a line that is too long was cut.
func wordBits(l *client.LineEvent, word client.LineSpan) float64 {
	if word.To < int64(len(l.TokenBits)) {
		return float64(l.TokenBits[word.To])
	}
	if l.Cut != nil && *l.Cut {
		return 0
	}
	rest := l.Bits
	for _, b := range l.TokenBits {
		rest -= float64(b)
	}
	return rest
}

// mean is what a unit of some words costs on average.
func (c costs) mean(words ...client.LineSpan) float64 {
	bits, units := c(words...)
	return bits / units
}

// dearWords are those of some words that cost at least as much as all of them on average.
func dearWords(all []client.LineSpan, cost costs) (marks []client.LineSpan) {
	average := cost.mean(all...)
	beside := false // the word before is marked
	for _, word := range all {
		switch {
		case cost.mean(word) < average:
			beside = false
			continue
		case beside:
			marks[len(marks)-1].To = word.To
		default:
			marks = append(marks, word)
		}
		beside = true
	}
	return marks
}

// words are what stands between breaks.
func words(text []byte, from, to int, isBreak func(byte) bool) (all []client.LineSpan) {
	for at := from; at < to; at++ {
		if begin := at; !isBreak(text[at]) {
			for at < to && !isBreak(text[at]) {
				at++
			}
			all = append(all, client.LineSpan{From: int64(begin), To: int64(at)})
		}
	}
	return all
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' }

// isBreak reports whether a byte separates words where bytes have costs.
func isBreak(b byte) bool { return isSpace(b) || strings.IndexByte("\"',;|&=?{}[]()<>", b) >= 0 }
