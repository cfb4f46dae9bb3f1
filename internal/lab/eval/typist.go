package eval

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file is the simulated writer. It sees all candidates at every key, and accepts the one that
// takes it farthest, if there is one that saves a key. What it types past is not offered again.

// types types a window of a text, whose end may lie within a candidate. ask gives the candidates
// behind what was typed.
func (e *typing) types(
	text []byte, method, mode string,
	ask func(typed []byte, refused []string) (suggest.Found, error),
) (Typed, error) {
	var typed Typed
	var took []time.Duration
	var refused []string // offers that the writer has typed past
	blind := false       // the separator that came with the last word is wrong, and is typed over
	for at := 0; typed.Characters < e.Window && at < len(text); typed.Keys++ {
		_, far := utf8.DecodeRune(text[at:])
		if !blind {
			began := time.Now()
			found, err := ask(text[:at], refused)
			if err != nil {
				return typed, err
			}
			took = append(took, time.Since(began))
			typed.calls += found.Calls
			typed.rows += found.Rows
			most := e.look(text[at:], found.Candidates, method, mode, &typed)
			for _, c := range found.Candidates {
				refused = append(refused, c.Text)
			}
			if most.bytes > far {
				far, blind = most.bytes, most.wrong
			}
		} else {
			blind = false
		}
		refused = restsOf(refused, string(text[at:at+far]))
		characters := utf8.RuneCount(text[at : at+far])
		typed.Characters += characters
		e.progress(int64(characters))
		at += far
	}
	e.progress(int64(e.Window - typed.Characters)) // the last candidate may have gone too far
	slices.Sort(took)
	typed.derive(took)
	return typed, nil
}

// accepted is what accepting a candidate brings.
type accepted struct {
	bytes int  // of the text
	wrong bool // the separator that comes with the candidate is another one than the text's
}

// look notes which candidates are right, and returns the one that takes the writer farthest.
func (e *typing) look(
	rest []byte, candidates []suggest.Candidate, method, mode string, typed *Typed,
) (most accepted) {
	words := mode == string(suggest.Word) || mode == string(suggest.WordPlus)
	for i, c := range candidates {
		got, right := accept(rest, c, words)
		if right && got.bytes > most.bytes {
			most = got
		}
		if i == 0 {
			typed.shown++
		}
		if right && i == 0 {
			typed.right++
		}
		if words || i == 0 { // free ones share their bytes
			e.calibrate(method, mode, c.Probability, right)
		}
	}
	return most
}

// accept says whether a candidate, of words or with a free end, is right, and what accepting it
// brings.
func accept(rest []byte, c suggest.Candidate, words bool) (got accepted, right bool) {
	got.bytes = len(c.Text)
	switch next, _ := utf8.DecodeRune(rest[min(len(c.Text), len(rest)):]); {
	case !bytes.HasPrefix(rest, []byte(c.Text)), words && suggest.OfWord(next):
		return accepted{}, false
	case !words:
	case c.Separator != "" && bytes.HasPrefix(rest[len(c.Text):], []byte(c.Separator)):
		got.bytes += len(c.Separator)
	default:
		got.wrong = true
	}
	return got, true
}

// calibrate notes that a candidate of some probability was right, or not.
func (e *typing) calibrate(method, mode string, said float64, right bool) {
	key := [2]string{method, mode}
	if e.calibration == nil {
		e.calibration = map[[2]string]*[calibrationBuckets]Bucket{}
	}
	if e.calibration[key] == nil {
		e.calibration[key] = new([calibrationBuckets]Bucket)
	}
	b := &e.calibration[key][min(int(said*calibrationBuckets), calibrationBuckets-1)]
	b.Candidates++
	b.Said += said
	if right {
		b.Right++
	}
}

// restsOf is what is left of texts that go on behind a text.
func restsOf(texts []string, text string) (rests []string) {
	for _, t := range texts {
		if rest, ok := strings.CutPrefix(t, text); ok && rest != "" {
			rests = append(rests, rest)
		}
	}
	return rests
}
