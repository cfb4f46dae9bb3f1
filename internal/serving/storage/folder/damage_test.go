package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func damageable(t require.TestingT, dir string) map[string]string {
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	for n, id := range []string{"a", "b"} {
		epoch, err := s.Create(background, id, []byte(`{"head of":"`+id+`"}`), 0)
		require.NoError(t, err)
		at := int64(0)
		for k := range 4 {
			r := record{UnixMS: int64(k), Bits: float64(n), Text: []byte(strings.Repeat(id, 40+k))}
			require.NoError(t, s.Append(background, id, epoch, at, r, learned(r, k%3)))
			at += 2 * int64(len(r.Text))
		}
		require.NoError(t, s.WriteSnapshot(background, id, epoch, at, func(w io.Writer) error {
			_, err := io.WriteString(w, "state of "+id)
			return err
		}))
	}
	_, err = s.Fork(background, "a", "f", []byte("fork"), storage.Cut{End: 80})
	require.NoError(t, err)
	contents := eachDump(t, s)
	require.NoError(t, s.Close())
	return contents
}

func eachDump(t require.TestingT, s *Folder) map[string]string {
	contents := map[string]string{}
	for _, id := range s.completeIDs() {
		text, err := dump(only{s, id})
		if err != nil {
			require.ErrorIs(t, err, storage.ErrCorrupt, id)
			text = "damaged"
		}
		contents[id] = text
	}
	return contents
}

type only struct {
	*Folder
	id string
}

func (o only) List(ctx ctx, _ string, _ int) ([]storage.Session, error) {
	x, err := o.Get(ctx, o.id)
	return []storage.Session{x}, err
}

func sessionFiles(t require.TestingT, dir string) (paths []string) {
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, sessionsName),
		func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), claimPrefix) {
				paths = append(paths, path)
			}
			return err
		}))
	return paths
}

// flipped flips bits of one byte in a file. It requires that Check finds the damage, and that
// sessions that do not use the file are still readable.
func flipped(t require.TestingT, dir, path string, at int64, bits byte, want map[string]string) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	what := fmt.Sprintf("%s, byte %d, bits %08b", path, at, bits)
	write := func(x byte) {
		b[at] ^= x
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = out.WriteAt(b[at:at+1], at)
		require.NoError(t, errors.Join(err, out.Close()))
	}
	write(bits)
	defer write(bits)
	info, err := os.Stat(path)
	require.NoError(t, err)
	shared := linksOf(path, info).links > 1
	id := filepath.Base(filepath.Dir(path))
	var found []*storage.CorruptError
	require.NoError(t, Check(background, dir, func(d *storage.CorruptError) {
		found =
			append(found, d)
	}))
	require.NotEmpty(t, found, what)
	s, err := open(dir, Options{ReadOnly: true}, unsynced{})
	require.NoError(t, err)
	got := eachDump(t, s)
	require.NoError(t, s.Close())
	for other, text := range want {
		if other == id || shared && (other == "a" || other == "f") {
			require.Contains(t, []string{text, "damaged"}, got[other], what)
		} else {
			require.Equal(t, text, got[other], what)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, indexName)); err == nil &&
		filepath.Base(path) == headName {
		require.Equal(t, want[id], got[id], "the index has the head")
		return
	}
	require.Equal(t, "damaged", got[id], what)
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
	for _, path := range sessionFiles(t, dir) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		for at := range info.Size() {
			flipped(t, dir, path, at, 1<<(at%8), want)
		}
	}
}

// With an index, opening a folder does not read the files "head". Check must find damage in these
// files, too.
func TestAnyFlippedBitIsFoundWithIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	paths := sessionFiles(t, dir)
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom(paths).Draw(t, "path")
		info, err := os.Stat(path)
		require.NoError(t, err)
		at := rapid.Int64Range(0, info.Size()-1).Draw(t, "at")
		flipped(t, dir, path, at, rapid.ByteRange(1, 255).Draw(t, "bits"), want)
	})
}

func TestTornFrameIsCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "torn-*")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		data := filepath.Join(dir, "data")
		want := damageable(t, data)
		require.NoError(t, os.Remove(filepath.Join(data, indexName)))
		path := filepath.Join(data, sessionsName, "b", hexName(segmentPrefix, 0))
		size := rapid.SampledFrom([]int{1, 100, 3000}).Draw(t, "size")
		s, err := open(data, Options{ReadOnly: true}, unsynced{})
		require.NoError(t, err)
		x, err := s.Get(background, "b")
		require.NoError(t, err)
		require.NoError(t, s.Close())
		frame := frameOf(x.End, []record{{Text: bytes.Repeat([]byte{'x'}, size)}})
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		begin := len(b)
		whole := append(b, frame...)
		if rapid.Bool().Draw(t, "short") {
			whole = whole[:begin+rapid.IntRange(0, len(frame)-1).Draw(t, "bytes")]
		} else {
			zeroSector(t, whole, begin)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		s, err = open(data, Options{}, unsynced{})
		require.NoError(t, err)
		require.Equal(t, want, eachDump(t, s))
		claimed, err := s.Claim(background, "b")
		require.NoError(t, err)
		require.NoError(t, s.Append(background, "b", claimed.Epoch, claimed.End,
			record{Text: []byte("on")}))
		require.NoError(t, s.Close())
		checked(t, data, "", false)
	})
}

// zeroSector clears a random disk sector at or after byte begin, as if the disk had not written
// that sector.
func zeroSector(t *rapid.T, b []byte, begin int) {
	sectors := (len(b)-1)/sectorBytes - begin/sectorBytes + 1
	k := begin/sectorBytes + rapid.IntRange(0, sectors-1).Draw(t, "sector")
	clear(b[max(begin, k*sectorBytes):min(len(b), (k+1)*sectorBytes)])
}

func sameHead(_ string, head []byte, _ int64) []byte { return head }

func TestRescueTakesWhatReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	r := rand.New(rand.NewPCG(1, 2))
	paths := sessionFiles(t, dir)
	for n := range 60 {
		path := paths[r.IntN(len(paths))]
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		at := r.IntN(len(b))
		broken := bytes.Clone(b)
		broken[at] ^= 1 << r.IntN(8)
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = out.WriteAt(broken, 0)
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(filepath.Dir(path), fixed, fixed))
		to := filepath.Join(t.TempDir(), fmt.Sprint("rescued", n))
		rescued := map[string]Rescued{}
		require.NoError(t, Rescue(background, dir, to, sameHead,
			func(r Rescued) { rescued[r.ID] = r }))
		require.Len(t, rescued, len(want))
		lost := 0
		for id, x := range rescued {
			if len(x.Lost) > 0 {
				lost++
				continue
			}
			require.True(t, x.Kept, id)
		}
		require.Positive(t, lost, "%s byte %d", path, at)
		checked(t, to, "", false)
		s, err := open(to, Options{}, unsynced{})
		require.NoError(t, err)
		got := eachDump(t, s)
		for id, x := range rescued {
			if len(x.Lost) == 0 {
				require.Equal(t, want[id], got[id])
			}
		}
		require.NoError(t, s.Close())
		_, err = out.WriteAt(b, 0)
		require.NoError(t, errors.Join(err, out.Close()))
	}
}

func TestDamagedEpochStopsNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		fault   error
	}{
		"no number":   {content: "\x00000000000000000\n"},
		"too large":   {content: "ffffffffffffffff\n"},
		"unreadable":  {content: "0000000000010000\n", fault: errIO},
		"not allowed": {content: "0000000000010000\n", fault: syscall.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, err := open(dir, Options{}, unsynced{})
			require.NoError(t, err)
			first, err := s.Create(background, "a", []byte("{}"), 0)
			require.NoError(t, err)
			require.NoError(t, s.Close())
			path := filepath.Join(dir, epochName)
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			var told []error
			o := Options{Report: func(err error) { told = append(told, err) }}
			s, err = open(dir, o, hooked{before: func(path string) error {
				if filepath.Base(path) == epochName {
					return c.fault
				}
				return nil
			}})
			require.NoError(t, err)
			require.Len(t, told, 1)
			require.ErrorContains(t, told[0], epochName)
			claimed, err := s.Claim(background, "a")
			require.NoError(t, err)
			require.Greater(t, claimed.Epoch, first)
			require.NoError(t, s.Close())
			s, err = open(dir, o, unsynced{})
			require.NoError(t, err)
			require.Len(t, told, 1, "the claim has written it anew")
			require.NoError(t, s.Close())
		})
	}
}

func TestUnreadableFolderIsOneSessionsDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
	var told []error
	s, err := open(dir, Options{Report: func(err error) { told = append(told, err) }},
		hooked{before: func(path string) error {
			if path == filepath.Join(dir, sessionsName, "b") {
				return &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}
			}
			return nil
		}})
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], storage.ErrCorrupt)
	require.ErrorContains(t, told[0], "sessions/b, session b: ")
	want["b"] = "damaged"
	require.Equal(t, want, eachDump(t, s))
	restored, found := restoredFrom(t, s)
	require.NoError(t, s.Close())
	require.Len(t, found, 1, "the restored session must not seem to be empty")
	s, err = open(restored, Options{ReadOnly: true}, unsynced{})
	require.NoError(t, err)
	require.Equal(t, want, eachDump(t, s))
	require.NoError(t, s.Close())
}

// A server that has no free file descriptor must not take a file that it cannot open for damage.
func TestDescriptorShortageIsNoDamage(t *testing.T) {
	for n, reached := int64(0), true; reached; n++ {
		dir := filepath.Join(t.TempDir(), "data")
		damageable(t, dir)
		require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
		var opened atomic.Int64
		files := hooked{before: func(string) error {
			if opened.Add(1) == n+1 {
				return errShortage
			}
			return nil
		}}
		report := func(err error) { require.NotErrorIs(t, err, storage.ErrCorrupt, "open %d", n) }
		s, err := open(dir, Options{Report: report}, files)
		if err == nil {
			_, err = s.Fork(background, "a", "g", nil, storage.Cut{End: 121})
			err = errors.Join(err, s.Scrub(background, ScrubOptions{
				FilesPerSecond: 1 << 20, Report: func(d *storage.CorruptError) { report(d) },
			}))
			to, opening := open(filepath.Join(t.TempDir(), "rescued"), Options{}, unsynced{})
			require.NoError(t, opening)
			r, failed := rescue(background, s, to, s.sessions["a"], sameHead)
			if require.Empty(t, r.Lost, "open %d", n); failed == nil {
				require.Equal(t, 1, r.Snapshots, "open %d", n)
				require.Equal(t, s.sessions["a"].end, r.End, "open %d", n)
			}
			err = errors.Join(err, failed, to.Close(), s.Close())
		}
		require.NotErrorIs(t, err, storage.ErrCorrupt, "open %d", n)
		reached = opened.Load() > n
	}
}

func TestReportsDoNotOverlap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	const sessions = 40
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	for n := range sessions {
		_, err := s.Create(background, fmt.Sprint(n), nil, 0)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	for n := range sessions {
		require.NoError(t, os.Remove(filepath.Join(dir, sessionsName, fmt.Sprint(n), headName)))
	}
	found := 0
	require.NoError(t, Check(background, dir, func(*storage.CorruptError) {
		before := found
		time.Sleep(time.Millisecond)
		found = before + 1
	}))
	require.Equal(t, sessions, found)
}

// A session that cannot be read now must not end the search for damage in other sessions.
func TestScrubContinuesAfterErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	damageable(t, dir)
	path := filepath.Join(dir, sessionsName, "b", hexName(segmentPrefix, 0))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[frameHead] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	reports := 0
	s, err := open(dir, Options{Report: func(err error) {
		reports++
		require.ErrorIs(t, err, storage.ErrUnavailable)
	}}, hooked{before: func(path string) error {
		if path == filepath.Join(dir, sessionsName, "a", hexName(segmentPrefix, 0)) {
			return errShortage
		}
		return nil
	}})
	require.NoError(t, err)
	found := 0
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	s.ScrubForever(ctx, ScrubOptions{FilesPerSecond: 1 << 20, Report: func(*storage.CorruptError) {
		if found++; found == 3 {
			cancel()
		}
	}})
	require.Equal(t, 3, found, "one in each round")
	require.Equal(t, 2, reports, "one in each complete round")
	require.NoError(t, s.Close())
}

// framed creates a session with one record of each given size, as a killed process leaves it. Each
// record is one frame, and all frames are in the same segment. framed returns the path and content
// of the segment, and the positions of its frames.
func framed(t require.TestingT, dir string, text byte, sizes ...int) (path string, b []byte,
	begins []int) {
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", []byte("head"), 0)
	require.NoError(t, err)
	at := int64(0)
	for _, n := range sizes {
		begins = append(begins, len(b))
		r := record{Text: bytes.Repeat([]byte{text}, n)}
		require.NoError(t, s.Append(background, "a", epoch, at, r))
		b = append(b, frameOf(at, []record{r})...)
		at += int64(n)
	}
	require.NoError(t, s.unlock())
	path = filepath.Join(dir, sessionsName, "a", hexName(segmentPrefix, 0))
	onDisk, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b, onDisk)
	return path, b, begins
}

func TestRescueFindsFramesBehindDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "frames-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		dir := filepath.Join(root, "data")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 1000), 2, 8).Draw(t, "sizes")
		path, b, begins := framed(t, dir, 'x', sizes...)
		k := rapid.IntRange(0, len(sizes)-1).Draw(t, "frame")
		damaged := b[begins[k]:]
		if k+1 < len(sizes) {
			damaged = b[begins[k]:begins[k+1]]
		}
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			at := rapid.IntRange(0, len(damaged)-1).Draw(t, "at")
			damaged[at] ^= rapid.ByteRange(1, 255).Draw(t, "bits")
		}
		if _, err := readFrame(damaged); err == nil {
			t.Skip("undone")
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		f, err := open(dir, Options{ReadOnly: true}, unsynced{})
		require.NoError(t, err)
		defer f.Close()
		var want []piece
		at := int64(0)
		for n, size := range sizes {
			from := at
			at += int64(size)
			switch j := len(want) - 1; {
			case n == k:
			case j >= 0 && want[j].to == from:
				want[j].to = at
			default:
				want = append(want, piece{from, at})
			}
		}
		var r Rescued
		pieces, err := f.pieces(f.sessions["a"], &r)
		require.NoError(t, err)
		require.Equal(t, want, pieces)
		out := filepath.Join(root, "out")
		require.NoError(t, Rescue(background, dir, out, sameHead, func(got Rescued) { r = got }))
		require.NotEmpty(t, r.Lost)
		checked(t, out, "", false)
		keep := choose(want, nil, 0)
		require.Equal(t, keep, piece{r.Start, r.End})
	})
}

// A zero that a valid frame has anyway does not show that its sector was never written.
func TestKnownZerosAreNoUnwrittenSector(t *testing.T) {
	for _, test := range []struct {
		name   string
		sizes  []int
		damage int // the byte of the last frame
	}{
		{"a zero of the size, behind a damaged body", []int{31, 392}, frameHead},
		{"a zero of the offset, before a damaged head",
			append(slices.Repeat([]int{5}, 90), 62, 10), frameHead - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			path, b, begins := framed(t, dir, 'x', test.sizes...)
			last := begins[len(begins)-1]
			alone := min(sectorBytes-last%sectorBytes, len(b)%sectorBytes)
			require.Equal(t, 1, alone, "bytes of the frame in one of its sectors")
			b[last+test.damage] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o600))
			s, err := open(dir, Options{ReadOnly: true}, unsynced{})
			require.NoError(t, err)
			defer s.Close()
			x, err := s.Get(background, "a")
			require.NoError(t, err)
			var damage *storage.CorruptError
			require.ErrorAs(t, x.Err, &damage)
		})
	}
}

// The text of a record may look like a frame. If the frame of that record is damaged, a rescue must
// not take the text for a frame.
func TestRescueFindsNoFrameInText(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path, b, begins := framed(t, dir, 'x', 10, 500, 10)
	looks := frameOf(100, []record{{Text: []byte("forged")}})
	copy(b[begins[1]+100:], looks)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := open(dir, Options{ReadOnly: true}, unsynced{})
	require.NoError(t, err)
	defer f.Close()
	pieces, err := f.pieces(f.sessions["a"], new(Rescued))
	require.NoError(t, err)
	require.Equal(t, []piece{{0, 10}, {510, 520}}, pieces)
}

// A torn append is the incomplete record of a server that was killed during a write. Damage to a
// complete record must not be taken for a torn append, if the remaining bytes show the difference.
func TestDamageIsNotTakenForTornAppend(t *testing.T) {
	for name, c := range map[string]struct {
		text   byte
		damage func(b []byte, begins []int) []byte
		torn   bool
	}{
		"a sector of a frame that others follow": {'x', func(b []byte, begins []int) []byte {
			clear(b[sectorBytes : 2*sectorBytes])
			return b[:begins[2]+40]
		}, false},
		"the head's sector, which others follow": {'x', func(b []byte, begins []int) []byte {
			clear(b[:sectorBytes])
			return b[:begins[2]+40]
		}, false},
		"the length of the last frame": {'x', func(b []byte, begins []int) []byte {
			b[begins[2]+8] ^= 1
			return b
		}, false},
		"the length of the last frame, whose text has zeros": {0,
			func(b []byte, begins []int) []byte {
				b[begins[2]+8] ^= 1
				return b
			}, false},
		"the last frame, with something behind": {0, func(b []byte, begins []int) []byte {
			b[begins[2]+1500] ^= 1
			return append(b, 1)
		}, false},
		"a frame of another offset, cut": {'x', func(b []byte, begins []int) []byte {
			return append(b, frameOf(1, []record{{Text: make([]byte, 2000)}})[:1000]...)
		}, false},
		"a sector of the last frame": {'x', func(b []byte, begins []int) []byte {
			n := begins[2]/sectorBytes*sectorBytes + sectorBytes
			clear(b[n : n+sectorBytes])
			return b
		}, true},
		"the end of the last frame": {'x', func(b []byte, begins []int) []byte {
			return b[:begins[2]+40]
		}, true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		path, b, begins := framed(t, dir, c.text, 2000, 2000, 2000)
		require.NoError(t, os.WriteFile(path, c.damage(b, begins), 0o600), name)
		f, err := open(dir, Options{}, unsynced{})
		require.NoError(t, err, name)
		_, err = f.Claim(background, "a")
		if c.torn {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, storage.ErrCorrupt, name)
		}
		require.NoError(t, f.Close(), name)
	}
}

// A segment that lies before the start of the log may be overwritten. It is neither read nor
// reported as damage.
func TestTrimmedSegmentIsNotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path, b, _ := framed(t, dir, 'x', 2000, 2000)
	f, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	claimed, err := f.Claim(background, "a")
	require.NoError(t, err)
	require.NoError(t, f.WriteSnapshot(background, "a", claimed.Epoch, 4000,
		func(io.Writer) error { return nil }))
	require.NoError(t, f.Trim(background, "a", claimed.Epoch, 4000))
	require.NoError(t, f.unlock())
	clear(b[sectorBytes : 2*sectorBytes])
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err = open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	claimed, err = f.Claim(background, "a")
	require.NoError(t, err)
	require.EqualValues(t, 4000, claimed.End)
	require.NoError(t, f.Close())
	require.NoFileExists(t, path)
	checked(t, dir, "", false)
}
