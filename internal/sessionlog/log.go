package sessionlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

const (
	// readBytes is how much text is copied out of one read transaction: bbolt keeps what a
	// transaction might see, and a remapping waits for its end.
	readBytes = 256 << 10

	// appendFill is how full bbolt leaves a page of the log that it splits: a session's records
	// come in order, so little more will go there.
	appendFill = 0.9
)

// Create implements Store.
func (f *Folder) Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64, err error) {
	if err := checkCreate(id, head, start); err != nil {
		return 0, err
	}
	err = f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		sessions := tx.Bucket([]byte(sessionBucket))
		if sessions.Get([]byte(id)) != nil {
			return fmt.Errorf("sessionlog: session %s: %w", id, ErrExists)
		}
		if epoch, err = nextEpoch(tx); err != nil {
			return err
		}
		e := entry{epoch: epoch, start: start, head: head}
		f.put(tx, sessionBucket, []byte(id), encodeEntry(id, e))
		return nil
	}})
	return epoch, err
}

// Claim implements Store.
func (f *Folder) Claim(ctx context.Context, id string) (s Session, err error) {
	err = f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := find(tx, id)
		if err != nil {
			return err
		}
		if err := marked(tx, id); err != nil {
			return err
		}
		if s, err = sessionOf(tx, id, e); err != nil {
			return err
		}
		if s.Epoch, err = nextEpoch(tx); err != nil {
			return err
		}
		e.epoch = s.Epoch
		f.put(tx, sessionBucket, []byte(id), encodeEntry(id, e))
		return nil
	}})
	if err != nil {
		return Session{}, err
	}
	return s, nil
}

// Get implements Store.
func (f *Folder) Get(ctx context.Context, id string) (s Session, err error) {
	if err := ctx.Err(); err != nil {
		return Session{}, err
	}
	err = f.view(func(tx *bbolt.Tx) error {
		e, err := find(tx, id)
		if err == nil {
			s = toldOf(tx, id, e)
		}
		return err
	})
	return s, err
}

// List implements Store.
func (f *Folder) List(ctx context.Context, after string, limit int) (sessions []Session, err error) {
	if limit < 1 {
		return nil, invalid("limit %d, expected 1 or more", limit)
	}
	err = f.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(sessionBucket)).Cursor()
		key, value := c.Seek([]byte(after + "\x00")) // the first after it
		for ; key != nil && len(sessions) < limit; key, value = c.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			sessions = append(sessions, listed(tx, key, value))
		}
		return nil
	})
	return sessions, err
}

func listed(tx *bbolt.Tx, key, value []byte) Session {
	id := string(key)
	e, err := decodeEntry(key, value)
	if err != nil {
		return Session{ID: id, Err: corruptEntry(id, err)}
	}
	return toldOf(tx, id, e)
}

// toldOf tells what can be read of a session. Of one whose last record is damaged, the log ends
// where that record begins.
func toldOf(tx *bbolt.Tx, id string, e entry) Session {
	s, err := sessionOf(tx, id, e)
	if err != nil {
		s = Session{ID: id, Epoch: e.epoch, Head: bytes.Clone(e.head), Start: e.start, End: e.start}
		var damage *CorruptError
		if errors.As(err, &damage) {
			s.End = max(s.End, damage.Offset)
		}
	}
	s.Err = cmp.Or(err, marked(tx, id))
	return s
}

// SetHead implements Store.
func (f *Folder) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := checkHead(head); err != nil {
		return err
	}
	return f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		e.head = head
		f.put(tx, sessionBucket, []byte(id), encodeEntry(id, e))
		return nil
	}})
}

// Delete implements Store.
func (f *Folder) Delete(ctx context.Context, id string, epoch uint64) error {
	w, retired := &write{drops: true, erase: true}, []string(nil)
	w.do = func(tx *bbolt.Tx) error {
		if _, err := owned(tx, id, epoch); err != nil && (epoch != 0 || errors.Is(err, ErrNotFound)) {
			return err
		}
		var files []string
		for _, key := range keys(tx, snapshotBucket, id) {
			if _, at, err := splitKey(key); err == nil {
				files = append(files, snapshotName(id, at))
			}
			f.drop(tx, snapshotBucket, key)
		}
		for _, key := range keys(tx, logBucket, id) {
			f.drop(tx, logBucket, key)
		}
		f.drop(tx, sessionBucket, []byte(id))
		if marks := tx.Bucket([]byte(damageBucket)); marks != nil {
			drop(marks, []byte(id))
		}
		w.then = func() (err error) {
			retired, err = f.retire(files)
			return err
		}
		return nil
	}
	// The overwriting of the snapshots is not the committer's: appends wait for the committer.
	return f.writeThenShred(ctx, w, &retired)
}

// Append implements Store.
func (f *Folder) Append(ctx context.Context, id string, epoch uint64, at int64, records ...Record) error {
	if err := checkRecords(at, records); err != nil {
		return err
	}
	return f.write(ctx, &write{do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		end, err := logEnd(tx, id, e)
		if err != nil {
			return err
		}
		if end != at {
			return &SequenceError{Session: id, Have: end, Want: at}
		}
		log := tx.Bucket([]byte(logBucket))
		log.FillPercent = appendFill
		next := at
		for n := range records {
			key := offsetKey(id, next)
			f.put(tx, logBucket, key, encodeRecord(key, &records[n]))
			next += int64(len(records[n].Text))
		}
		return nil
	}})
}

// Read implements Store.
func (f *Folder) Read(ctx context.Context, id string, from int64, visit func(at int64, r Record) error) error {
	s, err := f.Get(ctx, id)
	if err != nil {
		return err
	}
	if from < s.Start || from > s.End {
		return &RangeError{Session: id, Offset: from, Start: s.Start, End: s.End}
	}
	p := piece{from: from, end: s.End, inside: true}
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

// piece is the part of a log that Read has in memory.
type piece struct {
	from, end int64 // what is to be read yet
	inside    bool  // the next record may begin before from
	offsets   []int64
	records   []Record
	text      []byte
}

// fill reads on from where the last piece ended.
func (p *piece) fill(tx *bbolt.Tx, id string) error {
	p.offsets, p.records, p.text = p.offsets[:0], p.records[:0], p.text[:0]
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, value := c.Seek(offsetKey(id, p.from))
	if p.inside && !bytes.Equal(key, offsetKey(id, p.from)) {
		if key, value = backFrom(c, key); !bytes.HasPrefix(key, sessionPrefix(id)) {
			return missing(tx, id, p.from)
		}
	}
	for ; p.from < p.end && len(p.text) < readBytes; key, value = c.Next() {
		found, at, err := splitKey(key)
		if err != nil || found != id || at > p.from || at < p.from && !p.inside {
			return missing(tx, id, p.from)
		}
		r, err := decodeRecord(key, value)
		if err == nil && at+int64(len(r.Text)) <= p.from { // only a first record can end before
			return missing(tx, id, p.from)
		}
		if err != nil {
			return corruptRecord(id, at, err)
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

// missing says why there is no record where one should be: the session may have been trimmed or
// deleted since.
func missing(tx *bbolt.Tx, id string, at int64) error {
	e, err := find(tx, id)
	if err != nil {
		return err
	}
	if e.start > at {
		end, err := logEnd(tx, id, e)
		if err != nil {
			return err
		}
		return &RangeError{Session: id, Offset: at, Start: e.start, End: end}
	}
	return corruptRecord(id, at, fmt.Errorf("missing"))
}

// Trim implements Store.
func (f *Folder) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	return f.write(ctx, &write{drops: true, do: func(tx *bbolt.Tx) error {
		e, err := owned(tx, id, epoch)
		if err != nil {
			return err
		}
		newest := e.start
		if entries := keys(tx, snapshotBucket, id); len(entries) > 0 {
			if _, newest, err = splitKey(entries[len(entries)-1]); err != nil {
				return corruptSnapshot(id, -1, err)
			}
		}
		if before < 0 || before > newest {
			return &RangeError{Session: id, Offset: before, Start: 0, End: newest}
		}
		log := tx.Bucket([]byte(logBucket))
		var whole [][]byte
		start := e.start
		c := log.Cursor()
		for key, value := c.Seek(sessionPrefix(id)); bytes.HasPrefix(key, sessionPrefix(id)); key, value = c.Next() {
			_, at, err := splitKey(key)
			if err != nil {
				return corruptRecord(id, -1, err)
			}
			r, err := decodeRecord(key, value)
			if err != nil {
				return corruptRecord(id, at, err)
			}
			if at+int64(len(r.Text)) > before {
				break
			}
			start = at + int64(len(r.Text))
			whole = append(whole, bytes.Clone(key))
		}
		if start == e.start {
			return nil
		}
		for _, key := range whole {
			f.drop(tx, logBucket, key)
		}
		e.start = start
		f.put(tx, sessionBucket, []byte(id), encodeEntry(id, e))
		return nil
	}})
}

// find gives a session's entry, whose head is good as long as the transaction.
func find(tx *bbolt.Tx, id string) (entry, error) {
	value := tx.Bucket([]byte(sessionBucket)).Get([]byte(id))
	if value == nil {
		return entry{}, notFound(id)
	}
	e, err := decodeEntry([]byte(id), value)
	if err != nil {
		return entry{}, corruptEntry(id, err)
	}
	return e, nil
}

// owned is find for a write under an epoch.
func owned(tx *bbolt.Tx, id string, epoch uint64) (entry, error) {
	e, err := find(tx, id)
	if err != nil {
		return entry{}, err
	}
	if e.epoch != epoch {
		return entry{}, &FencedError{Session: id, Have: e.epoch, Want: epoch}
	}
	return e, marked(tx, id)
}

// marked says what damage has taken of a session when the database was rebuilt. Such a session can
// be read as far as it goes, and deleted; nothing is written to it.
func marked(tx *bbolt.Tx, id string) error {
	marks := tx.Bucket([]byte(damageBucket))
	if marks == nil {
		return nil
	}
	value := marks.Get([]byte(id))
	if value == nil {
		return nil
	}
	return &CorruptError{
		File: databaseName, Byte: -1, Session: id, Offset: -1, What: decodeMark(id, value),
	}
}

// sessionOf tells what is known of a session without reading its log.
func sessionOf(tx *bbolt.Tx, id string, e entry) (Session, error) {
	end, last, err := lastRecord(tx, id, e)
	if err != nil {
		return Session{}, err
	}
	return Session{ID: id, Epoch: e.epoch, Head: bytes.Clone(e.head), Start: e.start, End: end, Last: last}, nil
}

// logEnd finds it at the last record.
func logEnd(tx *bbolt.Tx, id string, e entry) (int64, error) {
	end, _, err := lastRecord(tx, id, e)
	return end, err
}

// lastRecord gives the end of the log, and the record that ends there without its text, if there is
// one.
func lastRecord(tx *bbolt.Tx, id string, e entry) (end int64, last *Record, err error) {
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, _ := c.Seek([]byte(id + "\x01")) // past the last
	key, value := backFrom(c, key)
	if !bytes.HasPrefix(key, sessionPrefix(id)) {
		return e.start, nil, nil
	}
	_, at, err := splitKey(key)
	if err != nil {
		return 0, nil, corruptRecord(id, -1, err)
	}
	r, err := decodeRecord(key, value)
	if err != nil {
		return 0, nil, corruptRecord(id, at, err)
	}
	return at + int64(len(r.Text)), r.withoutText(), nil
}

// backFrom moves a cursor back by one from where Seek has put it, at key.
func backFrom(c *bbolt.Cursor, key []byte) (before, value []byte) {
	if key == nil {
		return c.Last()
	}
	return c.Prev()
}

func nextEpoch(tx *bbolt.Tx) (uint64, error) {
	store := tx.Bucket([]byte(storeBucket))
	epoch, err := decodeEpoch(store.Get([]byte(epochKey)))
	if err != nil {
		return 0, &CorruptError{File: databaseName, Byte: -1, Offset: -1, What: "the last epoch given out: " + err.Error()}
	}
	put(store, []byte(epochKey), encodeEpoch(epoch+1))
	return epoch + 1, nil
}

func sessionPrefix(id string) []byte { return []byte(id + "\x00") }

// keys lists those of a session in a bucket.
func keys(tx *bbolt.Tx, bucket, id string) (found [][]byte) {
	prefix := sessionPrefix(id)
	c := tx.Bucket([]byte(bucket)).Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		found = append(found, bytes.Clone(key))
	}
	return found
}

// put and drop cannot fail on keys and values within the limits; if they did, the transaction would
// have to end.
func put(b *bbolt.Bucket, key, value []byte) {
	if err := b.Put(key, value); err != nil {
		panic(err)
	}
}

func drop(b *bbolt.Bucket, key []byte) {
	if err := b.Delete(key); err != nil {
		panic(err)
	}
}

func corruptEntry(id string, err error) error {
	return &CorruptError{File: databaseName, Byte: -1, Session: id, Offset: -1, What: "session: " + err.Error()}
}

func corruptRecord(id string, at int64, err error) error {
	return &CorruptError{File: databaseName, Byte: -1, Session: id, Offset: at, What: "record: " + err.Error()}
}

func corruptSnapshot(id string, at int64, err error) error {
	return &CorruptError{File: databaseName, Byte: -1, Session: id, Offset: at, What: "entry of a snapshot: " + err.Error()}
}
