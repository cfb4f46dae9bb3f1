package sessionlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// sample makes a folder in which everything occurs that a page can hold: branch pages, pages that
// overflow, buckets within a page and with pages of their own, free pages; and snapshots.
func sample(t testing.TB, sessions int) (dir, content string) {
	dir = filepath.Join(t.TempDir(), "data")
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	for _, x := range newScript().steps() {
		if x.name != "delete a" {
			require.NoError(t, x.do(s))
		}
	}
	for n := range sessions {
		id := fmt.Sprintf("session-%02d", n)
		epoch, err := s.Create(background, id, []byte("{}"), 0)
		require.NoError(t, err)
		at := int64(0)
		for i := range 4 {
			r := Record{UnixMS: at, Bits: 1.5, Text: bytes.Repeat([]byte{byte(n)}, 60+n)}
			r = byLine(r, i%3)
			require.NoError(t, s.Append(background, id, epoch, at, r, Record{Text: []byte("more")}))
			at += int64(len(r.Text)) + 4
		}
	}
	content = mustDump(t.(require.TestingT), s)
	require.NoError(t, s.Close())
	return dir, content
}

func files(t require.TestingT, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	}))
	return names
}

// flipped turns one bit of a file round, and back when do has returned.
func flipped(t require.TestingT, path string, bit int64, do func()) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	turn := func() {
		_, err := f.ReadAt(b[:], bit/8)
		require.NoError(t, err)
		b[0] ^= 1 << (bit % 8)
		_, err = f.WriteAt(b[:], bit/8)
		require.NoError(t, err)
	}
	turn()
	do()
	turn()
}

// harmless checks one flipped bit: it is found and located, or everything reads back exactly as
// before, and then it is where nothing is stored.
func harmless(t require.TestingT, dir, name string, bit int64, l layout, content string) (found bool) {
	what := fmt.Sprintf("bit %d of byte %d of %s", bit%8, bit/8, name)
	err := Check(background, dir, func(d *CorruptError) {
		if d.Stray { // a snapshot whose key is the one that was hit; something else says that
			return
		}
		require.Equal(t, name, d.File, what)
		if name != databaseName {
			require.NotEmpty(t, d.Session, what)
			require.GreaterOrEqual(t, d.Offset, int64(0), what)
		}
		found = true
	})
	require.NoError(t, err, what)
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt, what)
		require.True(t, found, what)
		return found
	}
	defer s.Close()
	got, err := dump(s)
	switch {
	case err != nil:
		require.ErrorIs(t, err, ErrCorrupt, what)
		require.True(t, found, what)
	case !found:
		require.Equal(t, content, got, what)
		require.Equal(t, databaseName, name, what)
	}
	return found
}

// Bits are tried all over the files, and many where most is at stake: in the meta pages and the
// headers of pages. With LMSERVE_BIT_STEP set they are ten times as many.
func TestEveryFlippedBitIsFoundOrDoesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	everywhere, headerStep := int64(40), int64(31) // both steps odd: all eight bits of bytes
	if bitStep(t, 0) > 0 {
		everywhere, headerStep = 400, 3
	}
	dir, content := sample(t, 20)
	l, err := (&Folder{dir: dir, environment: environment{files: osFiles{}}}).inspect()
	require.NoError(t, err)
	total, found := 0, 0
	for _, name := range files(t, dir) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		bits := 8 * info.Size()
		stride := bits/everywhere | 1
		for bit := int64(0); bit < bits; bit += stride {
			flipped(t, path, bit, func() {
				total++
				if harmless(t, dir, name, bit, l, content) {
					found++
				}
			})
		}
		if name != databaseName {
			continue
		}
		for page := range info.Size() / pageBytes {
			if !l.uses(page) {
				continue
			}
			first := page * pageBytes * 8
			for bit := first; bit < first+8*(pageHeaderBytes+metaBytes); bit += headerStep {
				flipped(t, path, bit, func() {
					total++
					if harmless(t, dir, name, bit, l, content) {
						found++
					}
				})
			}
		}
	}
	t.Logf("%d bits, %d of them found, the others without effect; %d of %d pages in use",
		total, found, len(l.used), l.size/pageBytes)
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
}

func TestAnyFlippedBitIsFoundOrDoesNothing(t *testing.T) {
	dir, content := sample(t, 60)
	l, err := (&Folder{dir: dir, environment: environment{files: osFiles{}}}).inspect()
	require.NoError(t, err)
	names := files(t, dir)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(append(names, databaseName, databaseName, databaseName)).Draw(t, "file")
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		bit := rapid.Int64Range(0, 8*info.Size()-1).Draw(t, "bit")
		flipped(t, filepath.Join(dir, name), bit, func() { harmless(t, dir, name, bit, l, content) })
	})
}

func TestCheckFindsWhatDoesNotFit(t *testing.T) {
	findings := func(dir string) (found []string) {
		require.NoError(t, Check(background, dir, func(d *CorruptError) { found = append(found, d.Error()) }))
		return found
	}
	change := func(do func(put func(bucket string, key, value []byte))) []string {
		dir, _ := sample(t, 0)
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		do(func(bucket string, key, value []byte) {
			require.NoError(t, s.write(background, &write{do: putting(bucket, key, value)}))
		})
		require.NoError(t, s.Close())
		return findings(dir)
	}
	record := func(id string, at int64, text string) (string, []byte, []byte) {
		key := offsetKey(id, at)
		return logBucket, key, encodeRecord(key, &Record{Text: []byte(text)})
	}
	require.Empty(t, change(func(func(string, []byte, []byte)) {}))
	for want, do := range map[string]func(put func(bucket string, key, value []byte)){
		"record follows one that ends at":        func(put func(string, []byte, []byte)) { put(record("b", 1<<30, "x")) },
		"records of a session that is not there": func(put func(string, []byte, []byte)) { put(record("nobody", 0, "x")) },
		"the log's first record, expected it at offset 1": func(put func(string, []byte, []byte)) {
			put(record("c", 0, "x"))
			put(sessionBucket, []byte("c"), encodeEntry("c", entry{epoch: 1, start: 1}))
		},
		"epoch 99, expected 1 to 7": func(put func(string, []byte, []byte)) {
			put(sessionBucket, []byte("c"), encodeEntry("c", entry{epoch: 99}))
		},
		"snapshot of a session that is not there": func(put func(string, []byte, []byte)) {
			put(snapshotBucket, offsetKey("c", 1), encodeSnapshot(offsetKey("c", 1), &Snapshot{}))
		},
		"missing, expected 5 bytes": func(put func(string, []byte, []byte)) {
			put(snapshotBucket, offsetKey("b", 1), encodeSnapshot(offsetKey("b", 1), &Snapshot{Bytes: 5}))
		},
		"expected none after offset": func(put func(string, []byte, []byte)) {
			put(snapshotBucket, offsetKey("b", 1<<30), encodeSnapshot(offsetKey("b", 1<<30), &Snapshot{}))
		},
		"version 3, expected 1 to 2": func(put func(string, []byte, []byte)) {
			put(sessionBucket, []byte("c"), seal(sessionBucket, []byte("c"), append([]byte{3}, make([]byte, 16)...)))
		},
		"the last epoch given out: checksum": func(put func(string, []byte, []byte)) {
			put(storeBucket, []byte(epochKey), make([]byte, 13))
		},
		"expected only epoch": func(put func(string, []byte, []byte)) { put(storeBucket, []byte("more"), make([]byte, 13)) },
	} {
		found := change(do)
		require.NotEmpty(t, found, want)
		require.Contains(t, found[0]+found[len(found)-1], want)
	}
}

func TestASnapshotIsNotRemovedForADamagedEntry(t *testing.T) {
	dir, _ := sample(t, 0)
	before := files(t, dir)
	require.Greater(t, len(before), 1)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.write(background, &write{do: func(tx *bbolt.Tx) error {
		index := tx.Bucket([]byte(snapshotBucket))
		key, value := index.Cursor().First()
		value = bytes.Clone(value)
		drop(index, key)
		put(index, append([]byte("c"), key...), value)
		return nil
	}}))
	require.NoError(t, s.Close())
	s, err = Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, before, files(t, dir))
}

func TestADamagedSessionDoesNotHideTheOthers(t *testing.T) {
	dir, _ := sample(t, 3)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	key := offsetKey("session-01", 0)
	require.NoError(t, s.write(background, &write{do: putting(logBucket, offsetKey("session-01", 1<<20), encodeRecord(key, &Record{Text: []byte("x")}))}))
	require.NoError(t, s.write(background, &write{do: putting(sessionBucket, []byte("session-02"), []byte("garbage"))}))
	listed, err := s.List(background, "", 10)
	require.NoError(t, err)
	bad := map[string]bool{}
	for _, x := range listed {
		if x.Err != nil {
			require.ErrorIs(t, x.Err, ErrCorrupt)
			bad[x.ID] = true
		}
	}
	require.Equal(t, map[string]bool{"session-01": true, "session-02": true}, bad)
	for id := range bad {
		var damage *CorruptError
		_, err := s.Claim(background, id)
		require.ErrorAs(t, err, &damage)
		require.Equal(t, id, damage.Session)
		require.NoError(t, s.Delete(background, id, 0))
	}
	require.NoError(t, s.Close())
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
}

func FuzzRecord(f *testing.F) {
	key := offsetKey("a", 7)
	for _, r := range []Record{
		{Text: []byte("x")},
		{UnixMS: -1, Bits: math.Inf(1), HasBaseline: true, Baseline: math.NaN(), Text: []byte("text")},
		{ByLine: true, Text: []byte("x")},
		{ByLine: true, Skipped: []uint16{0, 2}, HasBaseline: true, Text: []byte("a\nb\nc\nd")},
	} {
		f.Add(encodeRecord(key, &r), true)
	}
	f.Add([]byte{1, 1, 0}, true)
	f.Fuzz(func(t *testing.T, value []byte, sealed bool) {
		if sealed && len(value) >= crcBytes { // else hardly one gets past the checksum
			value = seal(logBucket, key, bytes.Clone(value[:len(value)-crcBytes]))
		}
		r, err := decodeRecord(key, value)
		if err != nil {
			return
		}
		require.Equal(t, value, encodeRecord(key, &r), "one record, one encoding")
		_, err = decodeRecord(offsetKey("a", 8), value)
		require.Error(t, err, "at another offset it is not that record")
	})
}

// A record whose text is learnt by lines is refused if its parts do not go together, though its
// checksum is right.
func TestARecordOfLinesThatDoesNotFitIsRefused(t *testing.T) {
	key := offsetKey("a", 7)
	whole := Record{ByLine: true, Skipped: []uint16{0, 2}, Text: []byte("a\nb\nc\nd")}
	value := encodeRecord(key, &whole)
	got, err := decodeRecord(key, value)
	require.NoError(t, err)
	require.Equal(t, whole, got)
	const lesson = recordBytesMin // where the count begins
	for says, change := range map[string]func(b []byte) []byte{
		"version 5, expected 1 to 4":      func(b []byte) []byte { b[0] = 5; return b },
		"version 3 with flags 02":         func(b []byte) []byte { b[0] = 3; return b },
		"version 1 with flags 02":         func(b []byte) []byte { b[0] = 1; return b },
		"version 2 with flags 00":         func(b []byte) []byte { b[1] = 0; return b },
		"version 2 with flags 06":         func(b []byte) []byte { b[1] |= 4; return b },
		"version 2 with flags 0a":         func(b []byte) []byte { b[1] |= 8; return b },
		"version 4 with flags 02":         func(b []byte) []byte { b[0] = 4; return b },
		"version 4 with flags 1a":         func(b []byte) []byte { b[0], b[1] = 4, 0x1a; return b },
		"before its count of bytes":       func(b []byte) []byte { b[0], b[1] = 4, 0xa; return b[:lesson+7] },
		"ends before its count":           func(b []byte) []byte { return b[:lesson+3] },
		"3 lines that are not learnt in":  func(b []byte) []byte { b[lesson] = 3; return b[:lesson+9] },
		"4294967295 lines that":           func(b []byte) []byte { copy(b[lesson:], "\xff\xff\xff\xff"); return b },
		"text of 0 bytes":                 func(b []byte) []byte { b[lesson] = 0; return b[:lesson+4] },
		"record of 3 lines, of which":     func(b []byte) []byte { b[lesson+6] = 3; return b },
		"number 1 of those that are not":  func(b []byte) []byte { b[lesson+6] = 0; return b },
		"is line 2, expected lines of it": func(b []byte) []byte { b[len(b)-2] = 'x'; return b },
	} {
		body := bytes.Clone(value[:len(value)-crcBytes])
		_, err := decodeRecord(key, seal(logBucket, key, change(body)))
		require.ErrorContains(t, err, says)
	}
	for says, r := range map[string]Record{
		"that is not learnt by lines with 1": {Skipped: []uint16{0}, Text: []byte("\n")},
		"is line 1, expected":                {ByLine: true, Skipped: []uint16{1}, Text: []byte("\n")},
		"is line 0, expected":                {ByLine: true, Skipped: []uint16{0, 0}, Text: []byte("\n\n")},
	} {
		require.ErrorContains(t, checkRecords(0, []Record{r}), says)
	}
}

// A record of words is refused if its parts do not go together, though its checksum is right.
func TestARecordOfWordsThatDoesNotFitIsRefused(t *testing.T) {
	key := offsetKey("a", 7)
	whole := Record{
		HasBaseline: true, Bits: 3, Baseline: 4, ByLine: true, Skipped: []uint16{0},
		Text:  []byte("a\nb"),
		Words: &Words{1, 2, 3, 4, 5, 6, 7.5, 8.5},
	}
	value := encodeRecord(key, &whole)
	got, err := decodeRecord(key, value)
	require.NoError(t, err)
	require.Equal(t, whole, got)
	for says, change := range map[string]func(b []byte) []byte{
		"version 2 with flags 07":   func(b []byte) []byte { b[0] = 2; return b },
		"version 3 with flags 03":   func(b []byte) []byte { b[1] = 3; return b },
		"version 3 with flags 0f":   func(b []byte) []byte { b[1] |= 8; return b },
		"before its account of":     func(b []byte) []byte { return b[:recordBytesMin+8+WordsBytes-1] },
		"ends before its count":     func(b []byte) []byte { return b[:recordBytesMin+8+WordsBytes+3] },
		"that are not learnt in 0 ": func(b []byte) []byte { return b[:len(b)-5] },
	} {
		body := bytes.Clone(value[:len(value)-crcBytes])
		_, err := decodeRecord(key, seal(logBucket, key, change(body)))
		require.ErrorContains(t, err, says)
	}
}

// FuzzDatabase opens a damaged lmserve.db: the data overwrites it at a position, and the checksums
// of the meta pages are made to fit.
func FuzzDatabase(f *testing.F) {
	source, _ := sample(f, 12)
	pristine, err := os.ReadFile(filepath.Join(source, databaseName))
	require.NoError(f, err)
	for page := range uint32(len(pristine) / pageBytes) {
		f.Add(page*pageBytes, pristine[page*pageBytes:page*pageBytes+80])
	}
	f.Add(uint32(len(pristine)), []byte("more"))
	f.Fuzz(func(t *testing.T, at uint32, data []byte) {
		from := int(at) % (len(pristine) + 1)
		content := slices.Concat(pristine[:from], data, pristine[min(len(pristine), from+len(data)):])
		for page := range 2 {
			h := fnv.New64a()
			h.Write(content[page*pageBytes+pageHeaderBytes:][:56])
			binary.NativeEndian.PutUint64(content[page*pageBytes+pageHeaderBytes+56:], h.Sum64())
		}
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), content, 0o600))
		found := false
		require.NoError(t, Check(background, dir, func(*CorruptError) { found = true }))
		for _, o := range []Options{{ReadOnly: true}, {}} {
			s, err := Open(dir, o)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				require.True(t, found)
				continue
			}
			if _, err := dump(s); err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				require.True(t, found)
			}
			if !o.ReadOnly {
				if epoch, err := s.Create(background, "new", nil, 0); err == nil {
					require.NoError(t, s.Append(background, "new", epoch, 0, Record{Text: make([]byte, 9000)}))
				} else {
					require.True(t, errors.Is(err, ErrCorrupt), err)
				}
				require.NoError(t, s.Err())
			}
			require.NoError(t, s.Close())
		}
	})
}
