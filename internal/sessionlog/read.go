package sessionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// readBytes is how much text is copied out of one read transaction: bbolt keeps what a transaction
// might see, and a remapping waits for its end.
const readBytes = 256 << 10

// Read implements Store.
func (f *Folder) Read(ctx context.Context, id string, from int64, visit func(at int64, r Record) error) error {
	s, err := f.Get(ctx, id)
	if err != nil {
		return err
	}
	if from < s.Start || from > s.End {
		return &RangeError{Session: id, Offset: from, Start: s.Start, End: s.End}
	}
	p := passage{from: from, end: s.End, inside: true}
	for p.from < p.end {
		if err := ctx.Err(); err != nil {
			return err
		}
		damage := f.view(func(tx *bbolt.Tx) error { return p.fill(tx, id) })
		if damage != nil && !errors.Is(damage, ErrCorrupt) {
			return damage
		}
		for n := range p.records { // those before the damage
			if err := visit(p.offsets[n], p.records[n]); err != nil {
				return err
			}
		}
		if damage != nil {
			return damage
		}
	}
	return nil
}

// passage is the part of a log that Read has in memory.
type passage struct {
	from, end int64 // what is to be read yet
	inside    bool  // the next record may begin before from
	offsets   []int64
	records   []Record
	text      []byte
}

// fill reads on from where the last passage ended.
func (p *passage) fill(tx *bbolt.Tx, id string) error {
	p.offsets, p.records, p.text = p.offsets[:0], p.records[:0], p.text[:0]
	e, err := find(tx, id)
	if err != nil {
		return err
	}
	if p.from < e.start { // the session has been trimmed since
		end, err := logEnd(tx, id, e)
		if err != nil {
			return err
		}
		return &RangeError{Session: id, Offset: p.from, Start: e.start, End: end}
	}
	for p.from < p.end && len(p.text) < readBytes {
		if err := p.fillFrom(tx, id, e.partAt(id, p.from)); err != nil {
			return err
		}
	}
	return nil
}

// fillFrom reads on to the end of a part of the log, or until there is enough.
func (p *passage) fillFrom(tx *bbolt.Tx, id string, of part) error {
	missing := func() error { return corruptRecord(id, p.from, fmt.Errorf("missing")) }
	first := offsetKey(of.owner, p.from)
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, value := c.Seek(first)
	if p.inside && !bytes.Equal(key, first) {
		if key, value = backFrom(c, key); !bytes.HasPrefix(key, sessionPrefix(of.owner)) {
			return missing()
		}
	}
	for ; p.from < min(p.end, of.to) && len(p.text) < readBytes; key, value = c.Next() {
		found, at, err := splitKey(key)
		if err != nil || found != of.owner || at > p.from || at < p.from && !p.inside {
			return missing()
		}
		r, err := decodeRecord(key, value)
		if err == nil && at+int64(len(r.Text)) <= p.from { // only a first record can end before
			return missing()
		}
		if err != nil {
			return corruptRecord(id, at, err)
		}
		if end := at + int64(len(r.Text)); end > of.to {
			return corruptRecord(id, at, fmt.Errorf("it ends at offset %d, expected %d or less", end, of.to))
		}
		p.from, p.inside = at+int64(len(r.Text)), false
		begin := len(p.text)
		// The texts that point into p.text keep what they point at when append moves it.
		p.text = append(p.text, r.Text...)
		r.Text = p.text[begin:len(p.text):len(p.text)]
		p.offsets, p.records = append(p.offsets, at), append(p.records, r)
	}
	return nil
}
