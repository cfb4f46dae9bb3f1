package sessionlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// The values of lmserve.db; docs/formats.md has the table.

const (
	databaseName    = "lmserve.db"
	snapshotsFolder = "snapshots"
	temporarySuffix = ".tmp"

	formatVersion = 1
	// sharingVersion is that of a session and of a snapshot which refer to what stands under the id
	// of another session.
	sharingVersion = 2

	damageBucket   = "damage"
	shareBucket    = "shares"
	storeBucket    = "store"
	sessionBucket  = "sessions"
	logBucket      = "log"
	snapshotBucket = "snapshots"
	epochKey       = "epoch"
	crcBytes       = 4
	recordBytesMin = 1 + 1 + 8 + 8 // of a record without baseline and text
	baselineFlag   = 1
	byLineFlag     = 2
	// byLineVersion is that of a record whose text is learnt by lines, and lessonBytesMin what such a
	// record has beside the lines that are not learnt.
	byLineVersion    = 2
	lessonBytesMin   = 4
	wordsFlag        = 4
	wordsVersion     = 3 // of a record with Words
	continuedFlag    = 8
	continuedVersion = 4 // of a record with Continued
	continuedBytes   = 8
	entryBytesMin    = 1 + 8 + 8 // of a session with an empty head
	snapshotSize     = 1 + 8 + 32
	epochValueBytes  = 1 + 8
)

// Every database has these buckets. One that was rebuilt after damage may have the bucket of the
// sessions that the damage has touched, and one in which there ever was a fork has that of shares.
var (
	buckets    = []string{logBucket, sessionBucket, snapshotBucket, storeBucket}
	allBuckets = []string{
		damageBucket, logBucket, sessionBucket, shareBucket, snapshotBucket, storeBucket,
	}
)

// hasBuckets tells whether these are the names of a database's buckets: in order, which is bbolt's,
// none missing and none that is not known.
func hasBuckets(found []string) bool {
	known := func(name string) bool { return slices.Contains(allBuckets, name) }
	required := 0
	for _, name := range found {
		if !known(name) {
			return false
		}
		if slices.Contains(buckets, name) {
			required++
		}
	}
	ordered := slices.IsSorted(found) && len(slices.Compact(slices.Clone(found))) == len(found)
	return ordered && required == len(buckets)
}

// versionMax is the newest version of the values of a bucket.
func versionMax(bucket string) byte {
	switch bucket {
	case sessionBucket, snapshotBucket:
		return sharingVersion
	case logBucket:
		return continuedVersion
	}
	return formatVersion
}

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
	if most := versionMax(bucket); body[0] < formatVersion || body[0] > most {
		expected := strconv.Itoa(formatVersion)
		if most > formatVersion {
			expected += fmt.Sprintf(" to %d", most)
		}
		return nil, fmt.Errorf("version %d, expected %s", body[0], expected)
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
	if r.Words != nil {
		b[1] |= wordsFlag
		b, _ = binary.Append(b, binary.LittleEndian, r.Words) // never fails for numbers
	}
	if r.Continued != 0 {
		b[1] |= continuedFlag
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Continued))
	}
	if r.ByLine {
		b[1] |= byLineFlag
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Skipped)))
		for _, n := range r.Skipped {
			b = binary.LittleEndian.AppendUint16(b, n)
		}
	}
	b[0] = recordVersion(b[1])
	return seal(logBucket, key, append(b, r.Text...))
}

// recordVersion is the version of a record with these flags: the oldest that knows them.
func recordVersion(flags byte) byte {
	switch {
	case flags&continuedFlag != 0:
		return continuedVersion
	case flags&wordsFlag != 0:
		return wordsVersion
	case flags&byLineFlag != 0:
		return byLineVersion
	}
	return formatVersion
}

// decodeWords takes the account of words off what decodeRecord took for the text.
func (r *Record) decodeWords() error {
	if len(r.Text) < WordsBytes {
		return errors.New("record that ends before its account of words")
	}
	var w Words
	if _, err := binary.Decode(r.Text, binary.LittleEndian, &w); err != nil {
		return err
	}
	r.Words, r.Text = &w, r.Text[WordsBytes:]
	return nil
}

// decodeSkipped takes the lines that are not learnt off what decodeRecord took for the text.
func (r *Record) decodeSkipped() error {
	if len(r.Text) < lessonBytesMin {
		return errors.New("record that ends before its count of lines")
	}
	count, rest := int64(binary.LittleEndian.Uint32(r.Text)), r.Text[lessonBytesMin:]
	if int64(len(rest)) < SkippedBytes*count {
		return fmt.Errorf("record with %d lines that are not learnt in %d bytes", count, len(rest))
	}
	for range count {
		r.Skipped = append(r.Skipped, binary.LittleEndian.Uint16(rest))
		rest = rest[SkippedBytes:]
	}
	r.ByLine, r.Text = true, rest
	return r.CheckSkipped()
}

// CheckSkipped says which of the lines that are not learnt is none of the record's text, or is not
// in order.
func (r *Record) CheckSkipped() error {
	if len(r.Skipped) == 0 {
		return nil
	}
	if !r.ByLine {
		return fmt.Errorf("record that is not learnt by lines with %d lines that are not learnt",
			len(r.Skipped))
	}
	ends := bytes.Count(r.Text, []byte{'\n'})
	for i, n := range r.Skipped {
		if int(n) >= ends || i > 0 && n <= r.Skipped[i-1] {
			return fmt.Errorf("record of %d lines, of which number %d of those that are not learnt is "+
				"line %d, expected lines of its text in ascending order", ends, i, n)
		}
	}
	return nil
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
	flags := b[1]
	hasBaseline := flags&baselineFlag != 0
	if flags > baselineFlag|byLineFlag|wordsFlag|continuedFlag || hasBaseline && len(r.Text) < 8 ||
		b[0] != recordVersion(flags) {
		return Record{}, fmt.Errorf("record of version %d with flags %02x and %d bytes, which do not "+
			"go together", b[0], flags, len(b))
	}
	if hasBaseline {
		r.HasBaseline, r.Baseline = true, math.Float64frombits(binary.LittleEndian.Uint64(r.Text))
		r.Text = r.Text[8:]
	}
	if flags&wordsFlag != 0 {
		if err := r.decodeWords(); err != nil {
			return Record{}, err
		}
	}
	if flags&continuedFlag != 0 {
		if len(r.Text) < continuedBytes {
			return Record{}, errors.New("record that ends before its count of bytes that continue a " +
				"character")
		}
		r.Continued = int64(binary.LittleEndian.Uint64(r.Text))
		r.Text = r.Text[continuedBytes:]
	}
	if flags&byLineFlag != 0 {
		if err := r.decodeSkipped(); err != nil {
			return Record{}, err
		}
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

func encodeSnapshot(key []byte, s *Snapshot) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{formatVersion}, uint64(s.Bytes))
	b = append(b, s.SHA256[:]...)
	if s.owner != "" {
		b[0] = sharingVersion
		b = append(b, s.owner...)
	}
	return seal(snapshotBucket, key, b)
}

func decodeSnapshot(key, value []byte, at int64) (Snapshot, error) {
	b, err := unseal(snapshotBucket, key, value)
	if err != nil {
		return Snapshot{}, err
	}
	shared := b[0] == sharingVersion
	if len(b) < snapshotSize || len(b) > snapshotSize && !shared {
		return Snapshot{}, fmt.Errorf("snapshot's entry of %d bytes, expected %d", len(b), snapshotSize)
	}
	s := Snapshot{Offset: at, Bytes: int64(binary.LittleEndian.Uint64(b[1:])), SHA256: [32]byte(b[9:])}
	if s.Bytes < 0 {
		return Snapshot{}, fmt.Errorf("snapshot of %d bytes, expected 0 or more", s.Bytes)
	}
	if shared {
		s.owner = string(b[snapshotSize:])
		if err := checkID(s.owner); err != nil || bytes.HasPrefix(key, sessionPrefix(s.owner)) {
			return Snapshot{}, fmt.Errorf("snapshot's file is of %.80q, expected the id of another session", s.owner)
		}
	}
	return s, nil
}

// file is the name of the file that holds a session's snapshot.
func (s *Snapshot) file(id string) string { return snapshotName(s.ownedBy(id), s.Offset) }

// ownedBy is the id of the session that has written a session's snapshot.
func (s *Snapshot) ownedBy(id string) string { return cmp.Or(s.owner, id) }

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

// sessionPrefix is what the keys of all that a session has begin with.
func sessionPrefix(id string) []byte { return []byte(id + "\x00") }

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
		if err := records[i].CheckSkipped(); err != nil {
			return invalid("record %d: %v", i, err)
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

func checkFork(id string, head []byte, c Cut) error {
	if err := checkCreate(id, head, c.Start); err != nil {
		return err
	}
	if c.End < c.Start {
		return invalid("a fork from offset %d to %d, expected them in order", c.Start, c.End)
	}
	return nil
}

// checkSnapshot says why a session whose log reaches so far, and which has some snapshots, cannot
// have one more.
func checkSnapshot(id string, at int64, log extent, has int) error {
	if at < log.from || at > log.to {
		return &RangeError{Session: id, Offset: at, Start: log.from, End: log.to}
	}
	if has >= SnapshotsMax {
		return invalid("one more snapshot of session %s, expected at most %d", id, SnapshotsMax)
	}
	return nil
}

func temporaryName(name string) string {
	return fmt.Sprintf("%s.%016x%s", name, rand.Uint64(), temporarySuffix)
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

// valueBytesMax is more than any value has.
const valueBytesMax = MaxTextBytes + recordBytesMin + 8 + WordsBytes + continuedBytes +
	lessonBytesMin + SkippedBytes*SkippedMax + crcBytes

// bucketOf finds the bucket that a value's checksum says it is of; "": none.
func bucketOf(key, value []byte) string {
	for _, bucket := range allBuckets {
		if _, err := unseal(bucket, key, value); err == nil {
			return bucket
		}
	}
	return ""
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
