package eval

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file is the simulated writer. It sees all candidates at every key, and accepts the longest
// correct one, if that saves a key. Candidates that it types past are not offered again.

// types types a window of a text; the window may end within a candidate. The parameter `ask`
// returns the candidates after the typed text.
func (e *typing) types(text []byte, mode string, ask offers) (Typed, error) {
	var typed Typed
	var took []time.Duration
	var refused []string // offers that the writer typed past
	blind := false       // the last word's separator was wrong and is typed over
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
	e.progress(int64(e.Window - typed.Characters)) // the last candidate may exceed the window
	slices.Sort(took)
	typed.derive(took)
	return typed, nil
}

// accepted is the effect of accepting a candidate.
type accepted struct {
	bytes int  // length of the text that the candidate adds, in bytes
	wrong bool // the candidate's separator differs from the text's
}

// look records whether the first candidate is right, and returns the longest correct one.
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

// accept reports whether a candidate is right, and returns the effect of accepting it. If `words`
// is false, the candidate may end anywhere.
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

// calibrates compares the probabilities of candidates with the text at fixed places. The places
// where the writer stops would be biased: it stops after wrong offers, where the next ones are
// wrong more often than their probabilities say.
func (e *typing) calibrates(text []byte, method, mode string, ask offers) error {
	for at, n := 0, 0; n < e.Window && at < len(text); n++ {
		_, size := utf8.DecodeRune(text[at:])
		if n%calibrationStride == 0 {
			found, err := ask(text[:at], nil)
			if err != nil {
				return err
			}
			for i, c := range found.Candidates {
				if ofWords(mode) || i == 0 { // in mode free the candidates have common beginnings
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

// calibrate records whether a candidate of some probability was right.
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

// restsOf returns the rest of each of the texts that begins with `text`.
func restsOf(texts []string, text string) (rests []string) {
	for _, t := range texts {
		if rest, ok := strings.CutPrefix(t, text); ok && rest != "" {
			rests = append(rests, rest)
		}
	}
	return rests
}
