package session

import (
	"errors"
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// setTotals makes a record's totals those of tallies; words says that their tokens are words.
func setTotals(r *sessionlog.Record, words bool, tally, baseline tokenizer.Tally) {
	r.Bits, r.Baseline, r.Continued = tally.Bits, baseline.Bits, 0
	if !words {
		r.Continued = tally.Bytes - tally.Chars
	} else {
		r.Words = &sessionlog.Words{
			Bytes: tally.Bytes, Chars: tally.Chars, Tokens: tally.Tokens,
			Unknown: tally.Unknown, UnknownBytes: tally.UnknownBytes,
			UnknownChars: tally.UnknownChars, UnknownBits: tally.UnknownBits,
			UnknownBaseline: baseline.UnknownBits,
		}
	}
}

// totalsOf gives the tallies that a record that ends at an offset has as its totals. Without an
// account of words, every byte up to there is a token.
func totalsOf(r *sessionlog.Record, end int64) (tally, baseline tokenizer.Tally) {
	tally = bytesTally(end, r.Continued)
	if w := r.Words; w != nil {
		tally = tokenizer.Tally{
			Bytes: w.Bytes, Chars: w.Chars, Tokens: w.Tokens,
			Unknown: w.Unknown, UnknownBytes: w.UnknownBytes, UnknownChars: w.UnknownChars,
		}
	}
	baseline = tally
	tally.Bits, baseline.Bits = r.Bits, r.Baseline
	if w := r.Words; w != nil {
		tally.UnknownBits, baseline.UnknownBits = w.UnknownBits, w.UnknownBaseline
	}
	return tally, baseline
}

// bytesTally counts a text of which a token is a byte, and some bytes continue a character.
func bytesTally(n, continued int64) tokenizer.Tally {
	return tokenizer.Tally{Bytes: n, Chars: n - continued, Tokens: n}
}

// account is the form in which callers see the tally of a text, and that under the static model.
func (h *head) account(t, baseline tokenizer.Tally) Tally {
	told := Tally{
		Bytes: t.Bytes, Chars: t.Chars, Tokens: t.Tokens, Bits: t.Bits,
		Unknown: t.Unknown, UnknownBytes: t.UnknownBytes, UnknownBits: t.UnknownBits,
	}
	if h.Settings.Baseline {
		told.BaselineBits = &baseline.Bits
	}
	return told
}

// checkCounts says what is wrong with what a record counts, up to an offset, after another record.
func checkCounts(before, r *sessionlog.Record, end int64) error {
	most := end
	if r.Words != nil {
		most = 0
	}
	if r.Continued < before.Continued || r.Continued > most {
		return fmt.Errorf("counts %d bytes that continue a character, expected %d to %d",
			r.Continued, before.Continued, most)
	}
	return checkWords(before.Words, r.Words, end)
}

// checkWords is the part of checkCounts that is about accounts of words; nil stands for none.
func checkWords(before, w *sessionlog.Words, end int64) error {
	if w == nil {
		if before != nil {
			return errors.New("has no account of words, and the one before has")
		}
		return nil
	}
	if before == nil {
		before = new(sessionlog.Words)
	}
	counts := w.Bytes >= before.Bytes && w.Bytes <= end &&
		w.Chars >= before.Chars && w.Chars <= w.Bytes &&
		w.Tokens >= before.Tokens && w.Tokens <= w.Bytes &&
		w.Unknown >= before.Unknown && w.Unknown <= w.Tokens &&
		w.UnknownBytes >= before.UnknownBytes && w.UnknownBytes <= w.Bytes &&
		w.UnknownChars >= before.UnknownChars && w.UnknownChars <= w.UnknownBytes
	if !counts || !(w.UnknownBits >= before.UnknownBits) ||
		!(w.UnknownBaseline >= before.UnknownBaseline) || !finite(w.UnknownBits, w.UnknownBaseline) {
		return fmt.Errorf("has the account of words %+v after %+v, expected one of at most %d bytes, "+
			"of numbers that do not fall and are parts of others", *w, *before, end)
	}
	return nil
}

// sameCounts reports whether a stream has counted what a record that ends there says.
func sameCounts(st *stream.Stream, r *sessionlog.Record) bool {
	var own sessionlog.Record
	setTotals(&own, r.Words != nil, st.Tally, st.Baseline)
	return own.Continued == r.Continued && (r.Words == nil || *own.Words == *r.Words)
}

// finite reports whether all numbers are: neither NaN nor infinite, which JSON cannot say.
func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v - v) { // v - v is 0 for a finite v
			return false
		}
	}
	return true
}
