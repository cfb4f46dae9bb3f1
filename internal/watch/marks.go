package watch

import "github.com/lmserve/lmserve/api/client"

// Marks are the parts of a line's text that make it strange: the words of its strangest span whose
// bytes cost at least as much as the span's bytes cost on average. A word is whatever stands between
// spaces, and belongs to the span if it touches it; words beside each other are marked as one. Where
// it is not known what bytes have cost, the whole span is marked.
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

// dearWords are the words of a span whose bytes cost at least as much as those of the span.
func dearWords(text []byte, bits []float32, from, to int) (marks []client.LineSpan) {
	average := mean(bits[from:to])
	end := -1 // of the last word, if it is marked
	for at := from; at < to; {
		if isSpace(text[at]) {
			at++
			continue
		}
		begin := at
		for at < to && !isSpace(text[at]) {
			at++
		}
		switch {
		case mean(bits[begin:at]) < average:
			end = -1
			continue
		case end >= 0:
			marks[len(marks)-1].To = int64(at)
		default:
			marks = append(marks, client.LineSpan{From: int64(begin), To: int64(at)})
		}
		end = at
	}
	return marks
}

func mean(bits []float32) float64 {
	sum := 0.
	for _, b := range bits {
		sum += float64(b)
	}
	return sum / float64(len(bits))
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' }
