package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// The functions here read a session's old text and scores from its log. They do not run the model.

// TextPart is a part of a session's text.
type TextPart struct {
	Text []byte
	From int64 // offset at which the stored text begins
	End  int64
}

// Text returns up to length bytes of a session's text from an offset on, but at most TextBytesMax.
// The error is an *OffsetError if the offset is beyond the end of the text. It is a *TrimmedError
// if the text at the offset was trimmed from the log.
func (mg *Manager) Text(
	ctx context.Context, who Caller, id string, offset, length int64,
) (TextPart, error) {
	p, err := mg.past(ctx, who, id, offset)
	if err != nil {
		return TextPart{}, err
	}
	length = min(length, TextBytesMax, p.end-offset)
	part := TextPart{Text: make([]byte, 0, max(0, length)), From: p.start, End: p.end}
	if length <= 0 {
		return part, nil
	}
	err = p.read(ctx, offset, func(at int64, r storage.Record) error {
		text := r.Text[max(0, offset-at):]
		part.Text = append(part.Text, text[:min(length-int64(len(part.Text)), int64(len(text)))]...)
		if int64(len(part.Text)) == length {
			return errFound
		}
		return nil
	})
	return part, err
}

// PastScore is the score that a part of a session's text got when it was fed.
type PastScore struct {
	Tally
	Offset int64 // offset of the part's first token
	Time   time.Time
}

// History contains the scores of a part of a session's text.
type History struct {
	Scores []PastScore // scores of adjacent parts of the text, in order
	From   int64       // offset at which the stored scores begin
	Next   int64       // offset at which the scored parts end and the next call can continue
	End    int64
}

// Scores returns the past scores of up to length bytes of a session's text from an offset on, but
// at most PastBytesMax. It divides these bytes into parts of similar length; parameter points is
// their approximate number. Each part consists of whole records, because only records have totals.
// A new fork may have no totals for its last record until its first use; Next is then before this
// record. The errors are those of Text.
func (mg *Manager) Scores(
	ctx context.Context, who Caller, id string, offset, length int64, points int,
) (History, error) {
	p, err := mg.past(ctx, who, id, offset)
	if err != nil {
		return History{}, err
	}
	end := min(p.end, offset+min(length, PastBytesMax))
	h := History{From: p.start, Next: offset, End: p.end}
	if end <= offset {
		return h, nil
	}
	sum := adder{s: p.s, seen: p.seen, history: &h, points: int64(max(1, points)), end: end}
	if offset == 0 {
		sum.begin(0, new(storage.Record))
	}
	err = p.read(ctx, max(p.start, offset-1), sum.add)
	sum.finish()
	return h, err
}

type past struct {
	s          *session
	start, end int64
	seen       progress
}

// past gives access to a session's log. It fails if the log does not contain the offset.
func (mg *Manager) past(
	ctx context.Context, who Caller, id string, offset int64,
) (p past, err error) {
	s, err := mg.index.catalog.find(who, id)
	if err != nil {
		return p, err
	}
	if err := s.unusable(); err != nil {
		return p, err
	}
	found, err := s.get(ctx)
	if err != nil {
		return p, err
	}
	s.saw(found)
	seen := s.seen()
	p = past{s: s, start: found.Start, end: min(found.End, seen.offset), seen: seen}
	switch {
	case offset > p.end:
		return p, &OffsetError{Have: p.end, Want: offset}
	case offset < p.start:
		return p, p.trimmed(offset)
	}
	return p, nil
}

func (p *past) trimmed(offset int64) error {
	return &TrimmedError{FieldError{"offset", fmt.Sprint(offset), fmt.Sprintf("%d to %d",
		p.start, p.end)}}
}

// read calls visit for each record of the log, beginning with the record that contains the offset.
// It stops when visit returns errFound.
func (p *past) read(
	ctx context.Context, offset int64, visit func(at int64, r storage.Record) error,
) error {
	err := p.s.host.store.Read(ctx, p.s.ID, offset, func(at int64, r storage.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return visit(at, r)
	})
	switch {
	case err == nil, errors.Is(err, errFound):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, storage.ErrRange):
		return p.trimmed(offset)
	}
	return storeError("reading the log of session "+p.s.ID, err)
}

type adder struct {
	s       *session
	seen    progress
	history *History
	points  int64
	end     int64

	begun bool
	size  int64
	part  int64

	before, baseline tokenizer.Tally // totals at the beginning of the current part
	last             storage.Record
	// offset at which the record in the field last ends; 0 after each finished part
	lastEnd int64
}

// begin starts the history at an offset, the end of record r. The totals in r include the text of
// r.
func (a *adder) begin(offset int64, r *storage.Record) {
	a.begun, a.part, a.history.Next = true, offset, offset
	a.before, a.baseline = totalsOf(r, offset)
	a.size = max(1, (a.end-offset+a.points-1)/a.points)
}

// count reports whether a record has totals. The last record of a new fork has no totals until the
// session computes them. count then copies these totals to the record.
func (a *adder) count(r *storage.Record, end int64) bool {
	if r.UnixMS == uncounted && end == a.seen.offset && !a.seen.blind {
		a.s.count(r, a.s.model.OfWords(), a.seen.tally, a.seen.baseline)
	}
	return r.UnixMS != uncounted
}

func (a *adder) add(at int64, r storage.Record) error {
	end := at + int64(len(r.Text))
	switch {
	case !a.count(&r, end):
		return nil
	case !a.begun:
		if a.begin(end, &r); end >= a.end {
			return errFound
		}
		return nil
	case end > a.end && a.lastEnd > 0:
		return errFound
	}
	a.last, a.lastEnd = storage.Record{
		UnixMS: r.UnixMS, Bits: r.Bits, Baseline: r.Baseline, Continued: r.Continued,
	}, end
	if r.Words != nil {
		a.last.Words = new(*r.Words)
	}
	if end-a.part >= a.size {
		a.cut()
	}
	if end >= a.end {
		return errFound
	}
	return nil
}

func (a *adder) finish() {
	if a.lastEnd > a.part {
		a.cut()
	}
}

func (a *adder) cut() {
	tally, baseline := totalsOf(&a.last, a.lastEnd)
	a.history.Scores = append(a.history.Scores, PastScore{
		Offset: a.before.Bytes, Tally: a.s.account(less(tally, a.before),
			less(baseline, a.baseline)),
		Time: time.UnixMilli(a.last.UnixMS).UTC(),
	})
	a.before, a.baseline = tally, baseline
	a.part, a.history.Next, a.lastEnd = a.lastEnd, a.lastEnd, 0
}

func less(t, before tokenizer.Tally) tokenizer.Tally {
	return tokenizer.Tally{
		Bytes: t.Bytes - before.Bytes, Chars: t.Chars - before.Chars,
		Tokens: t.Tokens - before.Tokens, Bits: t.Bits - before.Bits,
		Unknown:      t.Unknown - before.Unknown,
		UnknownBytes: t.UnknownBytes - before.UnknownBytes,
		UnknownChars: t.UnknownChars - before.UnknownChars,
		UnknownBits:  t.UnknownBits - before.UnknownBits,
	}
}
