package sessionlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

// The values of lmserve.db; docs/formats.md has the table.

const (
	formatVersion = 1

	damageBucket    = "damage"
	storeBucket     = "store"
	sessionBucket   = "sessions"
	logBucket       = "log"
	snapshotBucket  = "snapshots"
	epochKey        = "epoch"
	crcBytes        = 4
	recordBytesMin  = 1 + 1 + 8 + 8 // of a record without baseline and text
	baselineFlag    = 1
	entryBytesMin   = 1 + 8 + 8 // of a session with an empty head
	snapshotSize    = 1 + 8 + 32
	epochValueBytes = 1 + 8
)

// buckets lists them in the order of their names, which is bbolt's. A database that was rebuilt
// after damage has one more, of the sessions that the damage has touched.
var (
	buckets       = []string{logBucket, sessionBucket, snapshotBucket, storeBucket}
	markedBuckets = append([]string{damageBucket}, buckets...)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(bucket string, key, body []byte) uint32 {
	c := crc32.Update(0, castagnoli, []byte(bucket))
	c = crc32.Update(c, castagnoli, key)
	return crc32.Update(c, castagnoli, body)
}

// seal appends the checksum to a value.
func seal(bucket string, key, body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, checksum(bucket, key, body))
}

// unseal gives the value without its checksum, if that is right, and so is the version.
func unseal(bucket string, key, value []byte) ([]byte, error) {
	if len(value) < 1+crcBytes {
		return nil, fmt.Errorf("%d bytes, expected %d or more", len(value), 1+crcBytes)
	}
	body, tail := value[:len(value)-crcBytes], value[len(value)-crcBytes:]
	if have, want := binary.LittleEndian.Uint32(tail), checksum(bucket, key, body); have != want {
		return nil, fmt.Errorf("checksum %08x, expected %08x", have, want)
	}
	if body[0] != formatVersion {
		return nil, fmt.Errorf("version %d, expected %d", body[0], formatVersion)
	}
	return body, nil
}

func encodeRecord(key []byte, r *Record) []byte {
	b := make([]byte, 0, recordBytesMin+8+len(r.Text)+crcBytes)
	b = append(b, formatVersion, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.UnixMS))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Bits))
	if r.HasBaseline {
		b[1] |= baselineFlag
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Baseline))
	}
	return seal(logBucket, key, append(b, r.Text...))
}

// decodeRecord gives a record whose text is part of value.
func decodeRecord(key, value []byte) (Record, error) {
	b, err := unseal(logBucket, key, value)
	if err != nil {
		return Record{}, err
	}
	if len(b) < recordBytesMin {
		return Record{}, fmt.Errorf("record of %d bytes, expected %d or more", len(b), recordBytesMin)
	}
	r := Record{
		UnixMS: int64(binary.LittleEndian.Uint64(b[2:])),
		Bits:   math.Float64frombits(binary.LittleEndian.Uint64(b[10:])),
		Text:   b[recordBytesMin:],
	}
	switch flags := b[1]; {
	case flags == baselineFlag && len(r.Text) >= 8:
		r.HasBaseline, r.Baseline = true, math.Float64frombits(binary.LittleEndian.Uint64(r.Text))
		r.Text = r.Text[8:]
	case flags != 0:
		return Record{}, fmt.Errorf("record with flags %02x and %d bytes, which do not go together", flags, len(b))
	}
	if n := len(r.Text); n < 1 || n > MaxTextBytes {
		return Record{}, fmt.Errorf("text of %d bytes, expected 1 to %d", n, MaxTextBytes)
	}
	return r, nil
}

// withoutText is a copy that needs no transaction.
func (r Record) withoutText() *Record {
	r.Text = nil
	return &r
}

// entry is a value of the bucket of sessions.
type entry struct {
	epoch uint64
	start int64
	head  []byte
}

func encodeEntry(id string, e entry) []byte {
	b := make([]byte, 0, entryBytesMin+len(e.head)+crcBytes)
	b = binary.LittleEndian.AppendUint64(append(b, formatVersion), e.epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.start))
	return seal(sessionBucket, []byte(id), append(b, e.head...))
}

// decodeEntry gives an entry whose head is part of value.
func decodeEntry(id, value []byte) (entry, error) {
	b, err := unseal(sessionBucket, id, value)
	if err != nil {
		return entry{}, err
	}
	if len(b) < entryBytesMin {
		return entry{}, fmt.Errorf("session of %d bytes, expected %d or more", len(b), entryBytesMin)
	}
	e := entry{epoch: binary.LittleEndian.Uint64(b[1:]), start: int64(binary.LittleEndian.Uint64(b[9:])), head: b[entryBytesMin:]}
	if e.start < 0 {
		return entry{}, fmt.Errorf("start of the log %d, expected 0 or more", e.start)
	}
	return e, nil
}

func encodeSnapshot(key []byte, s *Snapshot) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{formatVersion}, uint64(s.Bytes))
	return seal(snapshotBucket, key, append(b, s.SHA256[:]...))
}

func decodeSnapshot(key, value []byte, at int64) (Snapshot, error) {
	b, err := unseal(snapshotBucket, key, value)
	if err != nil {
		return Snapshot{}, err
	}
	if len(b) != snapshotSize {
		return Snapshot{}, fmt.Errorf("snapshot's entry of %d bytes, expected %d", len(b), snapshotSize)
	}
	s := Snapshot{Offset: at, Bytes: int64(binary.LittleEndian.Uint64(b[1:])), SHA256: [32]byte(b[9:])}
	if s.Bytes < 0 {
		return Snapshot{}, fmt.Errorf("snapshot of %d bytes, expected 0 or more", s.Bytes)
	}
	return s, nil
}

func encodeEpoch(epoch uint64) []byte {
	return seal(storeBucket, []byte(epochKey), binary.LittleEndian.AppendUint64([]byte{formatVersion}, epoch))
}

func decodeEpoch(value []byte) (uint64, error) {
	b, err := unseal(storeBucket, []byte(epochKey), value)
	if err != nil {
		return 0, err
	}
	if len(b) != epochValueBytes {
		return 0, fmt.Errorf("epoch of %d bytes, expected %d", len(b), epochValueBytes)
	}
	return binary.LittleEndian.Uint64(b[1:]), nil
}

// encodeMark is the value of a session that damage has touched: what was lost, in words.
func encodeMark(id, what string) []byte {
	return seal(damageBucket, []byte(id), append([]byte{formatVersion}, what...))
}

// decodeMark gives the words; of a damaged mark, that it is damaged: the session stays marked.
func decodeMark(id string, value []byte) string {
	b, err := unseal(damageBucket, []byte(id), value)
	if err != nil {
		return "touched by damage, of which the note is damaged itself: " + err.Error()
	}
	return string(b[1:])
}

// offsetKey is the key of something a session has at an offset.
func offsetKey(id string, at int64) []byte {
	b := make([]byte, 0, len(id)+1+8)
	return binary.BigEndian.AppendUint64(append(append(b, id...), 0), uint64(at))
}

// splitKey takes an offsetKey apart.
func splitKey(key []byte) (id string, at int64, err error) {
	n := bytes.IndexByte(key, 0)
	if n < 0 || len(key) != n+1+8 || checkID(string(key[:n])) != nil || key[n+1] > 127 {
		return "", -1, fmt.Errorf("key %q, expected an id, a byte 0, and an offset in 8 bytes", key)
	}
	return string(key[:n]), int64(binary.BigEndian.Uint64(key[n+1:])), nil
}

// An id is part of a file's name, on file systems that take A for a as well.
func checkID(id string) error {
	foreign := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' }
	if id == "" || len(id) > MaxIDBytes || id[0] == '-' || strings.ContainsFunc(id, foreign) {
		return invalid("id %.80q, expected 1 to %d of 0-9 a-z -, the first not -", id, MaxIDBytes)
	}
	return nil
}

func checkHead(head []byte) error {
	if len(head) > MaxHeadBytes {
		return invalid("head of %d bytes, expected at most %d", len(head), MaxHeadBytes)
	}
	return nil
}

func checkOffset(at int64) error {
	if at < 0 {
		return invalid("offset %d, expected 0 or more", at)
	}
	return nil
}

func checkRecords(at int64, records []Record) error {
	if err := checkOffset(at); err != nil {
		return err
	}
	if len(records) == 0 {
		return invalid("no records, expected at least one")
	}
	for i := range records {
		n := len(records[i].Text)
		if n < 1 || n > MaxTextBytes {
			return invalid("text of record %d has %d bytes, expected 1 to %d", i, n, MaxTextBytes)
		}
		if at > math.MaxInt64-int64(n) {
			return invalid("offset %d, expected that %d bytes more are at most %d", at, n, int64(math.MaxInt64))
		}
		at += int64(n)
	}
	return nil
}

func checkCreate(id string, head []byte, start int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := checkOffset(start); err != nil {
		return err
	}
	return checkHead(head)
}

const snapshotSuffix = ".safetensors.zst"

func snapshotName(id string, at int64) string {
	return fmt.Sprintf("%s.%016x%s", id, at, snapshotSuffix)
}

// parseSnapshotName takes a snapshotName apart.
func parseSnapshotName(name string) (id string, at int64, ok bool) {
	id, digits, ok := strings.Cut(strings.TrimSuffix(name, snapshotSuffix), ".")
	offset, err := strconv.ParseUint(digits, 16, 63)
	at = int64(offset)
	return id, at, ok && err == nil && checkID(id) == nil && name == snapshotName(id, at)
}
