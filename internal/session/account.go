package session

import (
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/tokenizer"
)

// setTotals makes a record's totals those of tallies; words says that their tokens are words.
func setTotals(r *sessionlog.Record, words bool, tally, baseline tokenizer.Tally) {
	r.Bits, r.Baseline = tally.Bits, baseline.Bits
	if words {
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
	tally = bytesTally(end)
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

// bytesTally counts a text of which a token is a byte.
func bytesTally(n int64) tokenizer.Tally { return tokenizer.Tally{Bytes: n, Chars: n, Tokens: n} }

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
