package watch

import "github.com/lmserve/lmserve/api/client"

// Marks are the parts of a line's text that make it strange: the words of its strangest span whose
// bytes cost at least as much as those of all its words on average. A word is whatever stands
// between spaces, and belongs to the span if it touches it; words beside each other are marked as
// one. Where it is not known what bytes have cost, the whole span is marked.
func Marks(l *client.LineEvent) []client.LineSpan {
	text := l.TextBytes()
	from := min(max(int(l.Span.From), 0), len(text))
	to := min(max(int(l.Span.To), 0), len(text))
	for from < to && isSpace(text[from]) {
		from++
	}
	for to > from && isSpace(text[to-1]) {
		to--
	}
	if from == to {
		return nil
	}
	for from > 0 && !isSpace(text[from-1]) {
		from--
	}
	for to < len(text) && !isSpace(text[to]) {
		to++
	}
	if len(l.TokenBits) < to {
		return []client.LineSpan{{From: int64(from), To: int64(to)}}
	}
	return dearWords(text, l.TokenBits, from, to)
}

// dearWords are the words of a span whose bytes cost at least as much as those of all its words.
func dearWords(text []byte, bits []float32, from, to int) (marks []client.LineSpan) {
	all := words(text, from, to)
	average := mean(bits, all...)
	beside := false // the word before is marked
	for _, word := range all {
		switch {
		case mean(bits, word) < average:
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

// words are what stands between spaces.
func words(text []byte, from, to int) (all []client.LineSpan) {
	for at := from; at < to; at++ {
		if begin := at; !isSpace(text[at]) {
			for at < to && !isSpace(text[at]) {
				at++
			}
			all = append(all, client.LineSpan{From: int64(begin), To: int64(at)})
		}
	}
	return all
}

// mean is what a byte of some words costs on average.
func mean(bits []float32, words ...client.LineSpan) float64 {
	sum, n := 0., int64(0)
	for _, word := range words {
		for _, b := range bits[word.From:word.To] {
			sum += float64(b)
		}
		n += word.To - word.From
	}
	return sum / float64(n)
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' }
