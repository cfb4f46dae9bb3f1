package lines

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// TroubleBytesMax is the maximum size, in bytes, of a list of words of trouble: words such as
	// "error" that mean that something is wrong.
	TroubleBytesMax  = 4096
	troubleWordMost  = 64
	troubleLeast     = .25
	troubleMemory    = 4096
	troubleWordsWant = "letters and _ alone, at most 64 bytes"
)

// TroubleDefault is a list of words of trouble for English logs.
const TroubleDefault = "" +
	"error fail fatal critical panic abort crash exception traceback stack_trace denied " +
	"deny forbid refus reject unauthori invalid illegal malform corrupt violat unexpected " +
	"unknown unable cannot timeout timed_out expired unreachable unavailable disconnect " +
	"reset broken lost missing not_found overflow underflow exceed exhaust leak segfault " +
	"kill terminat interrupt fault alert attack exploit malicious inject brute scan probe " +
	"intrus suspicious threat breach root privilege escalat tamper dump shadow passwd " +
	"warning warn severe emerg"

// TroubleWords parses a list of words of trouble. White space separates the words; # begins a
// comment up to the end of the line. The returned list has each word once, in lower case, with one
// space between words.
func TroubleWords(text string) (list string, err error) {
	var words []string
	size := -1
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for word := range strings.FieldsSeq(line) {
			small := strings.ToLower(word)
			odd := strings.ContainsFunc(small, func(r rune) bool {
				return r != '_' &&
					!inTrouble(r)
			})
			if odd || len(small) > troubleWordMost {
				return "", fmt.Errorf("line %d: found %.80q, expected %s", n+1, word,
					troubleWordsWant)
			}
			if slices.Contains(words, small) {
				continue
			}
			words = append(words, small)
			if size += 1 + len(small); size > TroubleBytesMax {
				return "", fmt.Errorf("line %d: the words so far have more than %d bytes, the "+
					"maximum",
					n+1, TroubleBytesMax)
			}
		}
	}
	if len(words) == 0 {
		return "", fmt.Errorf("found no word, expected one or more of %s", troubleWordsWant)
	}
	return strings.Join(words, " "), nil
}

func inTrouble(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsMark(r))
}

// trouble computes the part F of Rating from a line's words of trouble. A word of trouble contains
// an entry of a given list. Let x be the number of different words of trouble in the line. Then
//
//	F = -lg((H(x) + .25 / (.25 + x)) / (n + 1))
//
// H(x) is the number of lines, among the last n, with at least x words of trouble; from three words
// on, similar numbers count as equal. n is at most about 4,096. Upper and lower case are equal.
// Without a list, F is 0. F does not measure how strange a line is, but how likely the line is to
// need attention.
type trouble struct {
	list  string
	words [][]byte // the words of the list; read-only, since copies of the meter share them
	seen  histogram
}

// begin sets the list of words, in the form that TroubleWords returns; "" means no list.
func (t *trouble) begin(list string) {
	*t = trouble{list: list}
	for word := range strings.FieldsSeq(list) {
		t.words = append(t.words, []byte(word))
	}
}

// take returns F for a line, in bits, and adds the line to the histogram.
func (t *trouble) take(line []byte, of *scratch) (bits float64) {
	if t.list == "" {
		return 0
	}
	x := float64(t.count(line, of))
	n, _ := bin(x)
	p := (t.seen.from(n, 0) + troubleLeast/(troubleLeast+x)) / (float64(t.seen.N) + 1)
	t.seen.add(x, troubleMemory)
	return max(0, bitsOf(p))
}

// count returns the number of different words of the line that contain a word of the list.
func (t *trouble) count(line []byte, of *scratch) int {
	of.found = of.found[:0]
	line = bytes.ToLower(line)
	for _, word := range t.words {
		for rest := line; ; {
			from := bytes.Index(rest, word)
			if from < 0 {
				break
			}
			to := from + len(word)
			for from > 0 && inName(rest[from-1]) && !isDigit(rest[from-1]) {
				from--
			}
			for to < len(rest) && inName(rest[to]) && !isDigit(rest[to]) {
				to++
			}
			if k := seedWord.with(rest[from:to]); !slices.Contains(of.found, k) {
				of.found = append(of.found, k)
			}
			rest = rest[to:]
		}
	}
	return len(of.found)
}
