package sessionlog

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"
)

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
	s := Session{ID: id, Epoch: e.epoch, Head: bytes.Clone(e.head), Start: e.start}
	last, at, err := lastRecord(tx, id, e)
	if err != nil {
		return Session{}, err
	}
	if s.End = at; last != nil {
		s.End, s.Last, s.LastAt = at+int64(len(last.Text)), last.withoutText(), at
	}
	return s, nil
}

// logEnd finds it at the last record.
func logEnd(tx *bbolt.Tx, id string, e entry) (int64, error) {
	last, at, err := lastRecord(tx, id, e)
	if last != nil {
		at += int64(len(last.Text))
	}
	return at, err
}

// lastRecord gives the record that ends at the end of the log, and its offset; without one the offset
// is the end. The text is valid as long as the transaction.
func lastRecord(tx *bbolt.Tx, id string, e entry) (last *Record, at int64, err error) {
	c := tx.Bucket([]byte(logBucket)).Cursor()
	key, _ := c.Seek([]byte(id + "\x01")) // past the last
	key, value := backFrom(c, key)
	own := e.own()
	// What the session has trimmed, but others share, is still there under its id.
	if !bytes.HasPrefix(key, sessionPrefix(id)) || bytes.Compare(key, offsetKey(id, own)) < 0 {
		if len(e.pieces) == 0 {
			return nil, own, nil
		}
		owner := e.pieces[len(e.pieces)-1].owner
		key, _ = c.Seek(offsetKey(owner, own))
		if key, value = backFrom(c, key); !bytes.HasPrefix(key, sessionPrefix(owner)) {
			return nil, 0, corruptRecord(id, own, fmt.Errorf("none ends here, expected one of session %s", owner))
		}
	}
	_, at, err = splitKey(key)
	if err != nil {
		return nil, 0, corruptRecord(id, -1, err)
	}
	r, err := decodeRecord(key, value)
	if err != nil {
		return nil, 0, corruptRecord(id, at, err)
	}
	if end := at + int64(len(r.Text)); at < own && end != own {
		return nil, 0, corruptRecord(id, at, fmt.Errorf("it ends at offset %d, expected %d", end, own))
	}
	return &r, at, nil
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

// appendFill is how full bbolt leaves a page of the log that it splits: a session's records come in
// order, so little more will go there.
const appendFill = 0.9

// keyed is a value with its key.
type keyed struct{ key, value []byte }
