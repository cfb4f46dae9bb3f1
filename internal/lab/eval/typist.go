package eval

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file simulates a writer who sees all candidates at every key. The writer accepts the longest
// correct candidate if that saves a key. A candidate that the writer ignores is not offered again.

// types simulates the typing of the first Window characters of a text, or a few more if the last
// candidate is longer. The parameter `ask` returns the candidates after the typed text.
func (e *typing) types(text []byte, mode string, ask offers) (Typed, error) {
	var typed Typed
	var took []time.Duration
	var refused []string
	// true while the writer types over a wrong separator; then no candidates are shown
	blind := false
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
			most := look(text[at:], found.Candidates, mode, &typed)
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
	// corrects the progress if the last candidate exceeds the window
	e.progress(int64(e.Window - typed.Characters))
	slices.Sort(took)
	typed.derive(took)
	return typed, nil
}

type accepted struct {
	bytes int  // length of the text that the candidate adds, in bytes
	wrong bool // the candidate's separator differs from the text's
}

// look returns the effect of accepting the longest correct candidate. It also counts in `typed`
// whether the first candidate is right.
func look(rest []byte, candidates []suggest.Candidate, mode string, typed *Typed) (most accepted) {
	for i, c := range candidates {
		got, right := accept(rest, c, ofWords(mode))
		if right && got.bytes > most.bytes {
			most = got
		}
		if i == 0 {
			typed.shown++
		}
		if right && i == 0 {
			typed.right++
		}
	}
	return most
}

func ofWords(mode string) bool {
	return mode == string(suggest.Word) || mode == string(suggest.WordPlus)
}

// accept reports whether a candidate agrees with the rest of the text, and returns the effect of
// accepting it. If `words` is true, the candidate must end where a word of the text ends.
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

// calibrates compares the probabilities of candidates with the text at every fourth character.
// Positions where the writer stops would be biased. The writer stops after wrong offers, and there
// the next offers are wrong more often than predicted.
func (e *typing) calibrates(text []byte, method, mode string, ask offers) error {
	for at, n := 0, 0; n < e.Window && at < len(text); n++ {
		_, size := utf8.DecodeRune(text[at:])
		if n%calibrationStride == 0 {
			found, err := ask(text[:at], nil)
			if err != nil {
				return err
			}
			for i, c := range found.Candidates {
				// in mode free, candidates may begin alike, so only the first counts
				if ofWords(mode) || i == 0 {
					_, right := accept(text[at:], c, ofWords(mode))
					e.calibrate(method, mode, c.Probability, right)
				}
			}
		}
		e.progress(1)
		at += size
	}
	return nil
}

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

// restsOf selects the texts that are longer than `text` and begin with it. It returns the parts
// after this beginning.
func restsOf(texts []string, text string) (rests []string) {
	for _, t := range texts {
		if rest, ok := strings.CutPrefix(t, text); ok && rest != "" {
			rests = append(rests, rest)
		}
	}
	return rests
}
