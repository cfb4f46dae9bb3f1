package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// progress contains the values of a stream that callers see, as of the last accepted text.
type progress struct {
	offset          int64
	updates         uint64
	pending         int
	tally, baseline tokenizer.Tally
	// blind is true if the total number of bits is unknown: no record ends at the end of the log,
	// or the last record is uncounted.
	blind bool
}

func progressOf(st *stream.Stream) progress {
	return progress{
		offset: st.Offset(), updates: st.Updates(), pending: len(st.Pending),
		tally: st.Tally, baseline: st.Baseline,
	}
}

// progressAt returns the progress of a session from its head and its last record.
func (h *head) progressAt(found storage.Session) progress {
	n, last := found.End, found.Last
	p := progress{offset: n, tally: bytesTally(n, 0), blind: n > 0 && last == nil}
	if last != nil && last.UnixMS == uncounted {
		p.blind = true
	}
	baseline, tokens := p.tally, n
	if last != nil && finite(last.Bits, last.Baseline) {
		counted := n
		if last.UnixMS == uncounted {
			counted = found.LastAt // An uncounted record contains the totals at its beginning.
		}
		if p.tally, baseline = totalsOf(last, counted); last.Words != nil {
			tokens = p.tally.Tokens
		}
	}
	if h.Settings.Baseline {
		p.baseline = baseline
	}
	chunk := int64(h.Settings.Chunk)
	p.pending = int(tokens % chunk)
	if m := h.Settings.Method; m != stream.Static && m != stream.Cache {
		p.updates = uint64(tokens / chunk)
	}
	return p
}

// storedSession is what the store returns about a session without reading its log.
type storedSession struct {
	head
	model    *servedModel // nil if the model is unknown
	seen     progress
	lastUsed time.Time
	epoch    uint64
	bad      error // why the session is unusable, or nil
}

// readStored decodes a stored session. If served is empty, readStored does not check whether a
// model can continue the session.
func readStored(served models, found storage.Session) storedSession {
	k := storedSession{head: head{ID: found.ID}, epoch: found.Epoch}
	h, err := decodeHead(found.ID, found.Head)
	if k.bad = cmp.Or(found.Err, err); err != nil {
		return k
	}
	k.head, k.lastUsed, k.seen = h, h.Created, h.progressAt(found)
	k.model = served.withHash(h.Model.Hash)
	if r := found.Last; r != nil {
		if at := time.UnixMilli(r.UnixMS).UTC(); at.After(k.lastUsed) && r.UnixMS <= timeMaxMS {
			k.lastUsed = at
		}
	}
	// An incomplete session is not checked, because the next start of the server deletes the
	// session.
	if k.bad == nil && h.Complete {
		k.bad = h.suits(served, found)
	}
	if k.bad != nil {
		k.TTL = 0 // Nobody can use an unusable session, so it does not expire.
	}
	return k
}

// suits returns an error if this server cannot continue the session.
func (h *head) suits(served models, found storage.Session) error {
	m := served.withHash(h.Model.Hash)
	switch {
	case len(served) == 0:
		return h.checkEnd(found)
	case m == nil:
		return &ModelError{Have: h.Model.id(), Want: served.names()}
	}
	if last := found.Last; last != nil && (last.Words != nil) != m.OfWords() {
		return fmt.Errorf("the last record has word counts: found %t, expected %t for this model",
			last.Words != nil, m.OfWords())
	}
	return cmp.Or(h.checkEnd(found), h.Settings.Validate(m.Model))
}

// checkEnd returns an error if the totals in the last record are invalid.
func (h *head) checkEnd(found storage.Session) error {
	last := found.Last
	switch {
	case last == nil && found.End > 0:
		return fmt.Errorf("found no record that ends at offset %d (the end of the log), "+
			"expected one with totals", found.End)
	case last == nil:
		return nil
	case last.HasBaseline != h.Settings.Baseline:
		return fmt.Errorf("the last record has baseline bits: found %t, expected %t, as in the "+
			"session's settings",
			last.HasBaseline, h.Settings.Baseline)
	case !finite(last.Bits, last.Baseline):
		return fmt.Errorf("the last record has a total of %v bits and a baseline of %v bits, "+
			"expected finite numbers",
			last.Bits, last.Baseline)
	}
	if err := checkCounts(new(storage.Record), last, found.End); err != nil {
		return fmt.Errorf("the last record %w", err)
	}
	return nil
}

// checkRecord returns an error if record r, at an offset, contradicts the head or the previous
// record.
func (h *head) checkRecord(before storage.Record, at int64, r storage.Record) error {
	switch {
	case r.HasBaseline != h.Settings.Baseline:
		return fmt.Errorf("has baseline bits: found %t, expected %t, as in the session's settings",
			r.HasBaseline, h.Settings.Baseline)
	case r.ByLine && !h.ByLine:
		return errors.New("is learned by lines, but by_line is not true in the head")
	case r.Bits < before.Bits, r.Baseline < before.Baseline, !finite(r.Bits, r.Baseline):
		return fmt.Errorf("has a total of %v bits and a baseline of %v bits, expected finite "+
			"numbers of at least %v and %v", r.Bits, r.Baseline, before.Bits, before.Baseline)
	}
	return checkCounts(&before, &r, at+int64(len(r.Text)))
}

// uncounted is the time of a record whose totals are not computed yet. A fork within a record
// writes such a record if recovery would take too long. The record has the totals of the previous
// record, until the first use of the session computes its own.
const uncounted = -1

// timeMaxMS is the end of the year 9999 in Unix milliseconds. RFC 3339 cannot represent later
// times.
const timeMaxMS = 253402300799999

func checkTime(unixMS int64) error {
	if (unixMS < 0 || unixMS > timeMaxMS) && unixMS != uncounted {
		return fmt.Errorf("has time %d, expected 0 to %d ms (years 1970 to 9999)",
			unixMS, int64(timeMaxMS))
	}
	return nil
}

// info returns the part of a session's Info that follows from its head and its progress.
func (h *head) info(who Caller, p progress) Info {
	i := Info{
		ID:      h.ID,
		Name:    h.Name,
		Model:   h.Model.id(),
		Created: h.Created,
		Offset:  p.offset,
		Step:    p.updates,
		Pending: p.pending,
		Tally:   h.account(p.tally, p.baseline),

		PendingBytes: p.offset - p.tally.Bytes,
		Settings:     reported(h.Settings),
		Seed:         h.Settings.Seed,
		Labels:       maps.Clone(h.Labels),
		TTL:          h.TTL,
		History:      h.History,
		Parent:       h.Parent,
	}
	if h.ShadowOf != "" {
		i.ShadowOf = &Shadow{ID: h.ShadowOf, Offset: p.offset}
	}
	if len(h.Numerics) > 0 { // Numerics is empty only in a damaged head.
		i.Numerics = h.numerics().Name
	}
	if who.Admin {
		i.Owner = h.Owner
	}
	return i
}

// setTotals sets a record's totals from two tallies. Parameter words reports whether tokens are
// words.
func setTotals(r *storage.Record, words bool, tally, baseline tokenizer.Tally) {
	r.Bits, r.Baseline, r.Continued = tally.Bits, baseline.Bits, 0
	if !words {
		r.Continued = tally.Bytes - tally.Chars
	} else {
		r.Words = &storage.Words{
			Bytes: tally.Bytes, Chars: tally.Chars, Tokens: tally.Tokens,
			Unknown: tally.Unknown, UnknownBytes: tally.UnknownBytes,
			UnknownChars: tally.UnknownChars, UnknownBits: tally.UnknownBits,
			UnknownBaseline: baseline.UnknownBits,
		}
	}
}

// count sets the totals of an uncounted record. The record's time becomes the session's creation
// time, because no client sent the record's text.
func (h *head) count(r *storage.Record, words bool, tally, baseline tokenizer.Tally) {
	setTotals(r, words, tally, baseline)
	r.UnixMS = h.Created.UnixMilli()
}

// totalsOf returns the totals of a record as tallies. Parameter end is the offset at the end of the
// record. Without word counts, each byte of the log up to end is a token.
func totalsOf(r *storage.Record, end int64) (tally, baseline tokenizer.Tally) {
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

// bytesTally returns the tally of n bytes if each byte is a token. Parameter continued is the
// number of bytes that do not begin a character.
func bytesTally(n, continued int64) tokenizer.Tally {
	return tokenizer.Tally{Bytes: n, Chars: n - continued, Tokens: n}
}

// account returns a tally, with the baseline's bits if the session has a baseline.
func (h *head) account(t, baseline tokenizer.Tally) Tally {
	told := Tally{Tally: t}
	if h.Settings.Baseline {
		told.BaselineBits = &baseline.Bits
	}
	return told
}

// checkCounts returns an error if the counts in record r are impossible after the previous record.
// Parameter end is the offset at the end of record r.
func checkCounts(before, r *storage.Record, end int64) error {
	limit := end
	if r.Words != nil {
		limit = 0
	}
	if r.Continued < before.Continued || r.Continued > limit {
		return fmt.Errorf("has a count of %d continuation bytes of UTF-8 characters, expected %d "+
			"to %d",
			r.Continued, before.Continued, limit)
	}
	return checkWords(before.Words, r.Words, end)
}

// checkWords is the part of checkCounts for word counts. Nil means a record without word counts.
func checkWords(before, w *storage.Words, end int64) error {
	if w == nil {
		if before != nil {
			return errors.New("has no word counts, but the previous record has word counts")
		}
		return nil
	}
	if before == nil {
		before = new(storage.Words)
	}
	counts := w.Bytes >= before.Bytes && w.Bytes <= end &&
		w.Chars >= before.Chars && w.Chars <= w.Bytes &&
		w.Tokens >= before.Tokens && w.Tokens <= w.Bytes &&
		w.Unknown >= before.Unknown && w.Unknown <= w.Tokens &&
		w.UnknownBytes >= before.UnknownBytes && w.UnknownBytes <= w.Bytes &&
		w.UnknownChars >= before.UnknownChars && w.UnknownChars <= w.UnknownBytes
	if !counts || !(w.UnknownBits >= before.UnknownBits) ||
		!(w.UnknownBaseline >= before.UnknownBaseline) ||
		!finite(w.UnknownBits, w.UnknownBaseline) {
		return fmt.Errorf("has the word counts %+v, expected consistent counts, none below %+v, "+
			"and at most %d bytes", *w, *before, end)
	}
	return nil
}

func sameCounts(st *stream.Stream, r *storage.Record) bool {
	var own storage.Record
	setTotals(&own, r.Words != nil, st.Tally, st.Baseline)
	return own.Continued == r.Continued && (r.Words == nil || *own.Words == *r.Words)
}

// finite reports whether all values are finite. JSON can represent neither NaN nor infinity.
func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v - v) { // v - v is 0 for finite v, else NaN.
			return false
		}
	}
	return true
}
