package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// writer simulates a program that writes a log, and the rotation of the log.
type writer struct {
	t     require.TestingT
	path  string
	file  *os.File
	lines int
	turns int
	clock time.Time
	want  string
}

func newWriter(t require.TestingT, path string) *writer {
	w := &writer{t: t, path: path, clock: time.Now().Add(-time.Hour)}
	w.create()
	return w
}

func (w *writer) create() {
	var err error
	w.file, err = os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(w.t, err)
	w.touch()
}

func (w *writer) touch() {
	w.clock = w.clock.Add(time.Second)
	require.NoError(w.t, os.Chtimes(w.file.Name(), w.clock, w.clock))
}

func (w *writer) write(text string) {
	_, err := w.file.WriteString(text)
	require.NoError(w.t, err)
	w.want += text
}

func (w *writer) line() {
	w.lines++
	w.write(fmt.Sprintf("line %d of the log, %s\n", w.lines, strings.Repeat("x", w.lines%90)))
}

func (w *writer) half() {
	w.lines++
	w.write(fmt.Sprintf("half of line %d, ", w.lines))
}

func (w *writer) endFile() {
	if w.want != "" && !strings.HasSuffix(w.want, "\n") {
		w.want += "\n"
	}
}

func (w *writer) shift() {
	for n := w.turns; n > 0; n-- {
		from, to := fmt.Sprint(w.path, ".", n), fmt.Sprint(w.path, ".", n+1)
		require.NoError(w.t, os.Rename(from, to))
	}
	w.turns++
}

// rename rotates the log by renaming. The parameter `more` is the number of lines that the program
// still writes to the renamed file.
func (w *writer) rename(more int) {
	w.shift()
	require.NoError(w.t, os.Rename(w.path, w.path+".1"))
	for range more {
		w.line()
	}
	require.NoError(w.t, os.Chtimes(w.path+".1", w.clock, w.clock))
	require.NoError(w.t, w.file.Close())
	w.endFile()
	w.create()
}

func (w *writer) copyTruncate() {
	w.shift()
	text, err := os.ReadFile(w.path)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(w.path+".1", text, 0o600))
	require.NoError(w.t, os.Chtimes(w.path+".1", w.clock, w.clock))
	require.NoError(w.t, os.Truncate(w.path, 0))
	w.endFile()
	w.touch()
}

func TestLinesComeOnceThroughRotationAndRestarts(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n), "log")
		require.NoError(r, os.Mkdir(filepath.Dir(path), 0o700))
		w := newWriter(r, path)
		f := Open(optionsOf(path))
		var got strings.Builder
		var place Place
		quiet := func() {
			for _, o := range f.files {
				if !o.until.IsZero() {
					o.until = time.Unix(1, 0)
				}
			}
		}
		read := func(pieces int) {
			for range pieces {
				if p := f.Peek(); len(p.Text) > 0 {
					got.Write(p.Text)
					place = Place{Mark: p.Mark, Offset: p.To, Ended: p.From == p.To}
					// A place may also be the beginning of the piece, with the number of bytes to
					// skip.
					if p.From < p.To && len(p.Text)%2 == 0 {
						place.Offset, place.Skip = p.From, p.Skip+int64(len(p.Text))
					}
				}
			}
		}
		settle := func() {
			for range 5 {
				read(20)
				quiet()
			}
			read(20)
		}
		actions := map[string]func(*rapid.T){
			"line": func(*rapid.T) { w.line(); w.touch() },
			"half": func(*rapid.T) { w.half(); w.touch() },
			"rename": func(r *rapid.T) {
				w.rename(rapid.IntRange(0, 2).Draw(r,
					"more"))
				read(1)
			},
			"truncate": func(*rapid.T) { w.copyTruncate() },
			"read":     func(r *rapid.T) { read(rapid.IntRange(1, 5).Draw(r, "pieces")) },
			"quiet":    func(*rapid.T) { quiet() },
			"restart": func(r *rapid.T) {
				if place.Mark.Head.Bytes == 0 {
					r.Skip("nothing was read")
				}
				quiet()
				read(20)
				f.Close()
				for range rapid.IntRange(0, 2).Draw(r, "rotations") {
					w.line()
					w.touch()
					w.rename(0)
				}
				text, err := json.Marshal(place)
				require.NoError(r, err)
				require.NotContains(r, string(text), "line ")
				var again Place
				require.NoError(r, json.Unmarshal(text, &again))
				var found bool
				f, found = Resume(optionsOf(path), again)
				require.True(r, found)
			},
		}
		for range rapid.IntRange(1, 25).Draw(r, "actions") {
			name := rapid.SampledFrom([]string{"line", "line", "half", "rename", "truncate", "read",
				"read", "quiet", "restart"}).Draw(r, "action")
			if name == "restart" && place.Mark.Head.Bytes == 0 {
				continue
			}
			// Text that is truncated before the follower has read it is lost, so everything is read
			// first.
			if name == "truncate" {
				settle()
			}
			actions[name](r)
		}
		w.line()
		settle()
		f.Close()
		require.Equal(r, w.want, got.String())
		require.NoError(r, os.RemoveAll(filepath.Dir(path)))
	})
}

func openLog(t *testing.T, text string) (path string, f *Follower) {
	path = filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f = Open(optionsOf(path))
	t.Cleanup(f.Close)
	return path, f
}

func optionsOf(path string) Options { return Options{Log: Log{Path: path}, Last: -1} }

func requireNext(t *testing.T, f *Follower, want string) Piece {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := f.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, want, string(p.Text))
	return p
}

func TestTruncatedAndRegrownFileIsReadFromStart(t *testing.T) {
	path, f := openLog(t, "one\ntwo\n")
	requireNext(t, f, "one\ntwo\n")
	require.NoError(t, os.WriteFile(path, []byte("another, and longer\n"), 0o600))
	p := requireNext(t, f, "another, and longer\n")
	require.Zero(t, p.From)
}

func TestHalfALineWaitsForItsNewline(t *testing.T) {
	path, f := openLog(t, "half a ")
	require.Empty(t, f.Peek().Text)
	require.EqualValues(t, 7, f.Unread())
	require.NoError(t, os.WriteFile(path, []byte("half a line\n"), 0o600))
	requireNext(t, f, "half a line\n")
}

// A program may write to space that it has reserved at the end of the file.
func TestReservedSpaceAfterHalfALineIsNoText(t *testing.T) {
	path, f := openLog(t, "one\n")
	requireNext(t, f, "one\n")
	require.NoError(t, os.Truncate(path, 4096))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteAt([]byte("tw"), 4)
	require.NoError(t, err)
	require.Empty(t, f.Peek().Text)
	_, err = file.WriteAt([]byte("o\n"), 6)
	require.NoError(t, err)
	requireNext(t, f, "two\n")
}

func TestLastLineOfLeftFileGetsItsNewline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, f := openLog(t, "one\ntw")
		requireNext(t, f, "one\n")
		require.NoError(t, os.Rename(path, path+".1"))
		require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o600))
		begun := time.Now()
		p := requireNext(t, f, "tw")
		require.InDelta(t, leaveAfter, time.Since(begun), float64(2*lookEvery))
		require.Equal(t, [2]int64{4, 6}, [2]int64{p.From, p.To})
		p = requireNext(t, f, "\n")
		require.Equal(t, [2]int64{6, 6}, [2]int64{p.From, p.To})
		requireNext(t, f, "new\n")
	})
}

func TestUnreadableRotatedFileBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, f := openLog(t, "one\nha")
		requireNext(t, f, "one\n")
		require.Empty(t, f.Peek().Text)
		var notes []string
		f.o.Note = func(text string) { notes = append(notes, text) }
		require.NoError(t, os.Rename(path, path+".1"))
		require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o600))
		require.NoError(t, f.files[0].f.Close()) // reading fails
		require.NoError(t, os.Remove(path+".1")) // opening the file again fails, too
		begun := time.Now()
		requireNext(t, f, "new\n")
		require.InDelta(t, leaveAfter, time.Since(begun), float64(2*lookEvery))
		require.Len(t, notes, 2)
		require.Contains(t, notes[0], "file already closed; trying again")
		require.Contains(t, notes[1], "file already closed: the rest of the file is missing")
	})
}

// A program may still write to a renamed file after the new file has text.
func TestFollowReadsLateTextOfRenamedFile(t *testing.T) {
	path, f := openLog(t, "one\n")
	requireNext(t, f, "one\n")
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o600))
	second := requireNext(t, f, "new\n")
	late := func(text string) {
		old, err := os.OpenFile(path+".1", os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = old.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, old.Close())
	}
	late("late\n")
	first := requireNext(t, f, "late\n")
	require.EqualValues(t, 4, first.From)
	late("later\n")
	again, found := Resume(optionsOf(path), Place{Mark: second.Mark, Offset: second.To},
		Place{Mark: first.Mark, Offset: first.To})
	require.True(t, found)
	defer again.Close()
	requireNext(t, again, "later\n")
}

// A rotated file that is read again after a restart ends with a newline that was returned before.
func TestRestartRepeatsNoAddedNewline(t *testing.T) {
	for late, want := range map[string]string{"": "", "o\nlast": "o\nlast\n"} {
		path, f := openLog(t, "one\ntw")
		old := requireNext(t, f, "one\n")
		f.Close()
		require.NoError(t, os.Rename(path, path+".1"))
		require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o600))
		other := Open(optionsOf(path))
		defer other.Close()
		now := requireNext(t, other, "new\n")
		require.NoError(t, os.WriteFile(path+".1", []byte("one\ntw"+late), 0o600))
		past := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(path+".1", past, past))

		again, found := Resume(optionsOf(path), Place{Mark: now.Mark, Offset: now.To},
			Place{Mark: old.Mark, Offset: 0, Skip: 6, Ended: true})
		require.True(t, found)
		defer again.Close()
		var got strings.Builder
		for range 10 {
			got.Write(again.Peek().Text)
		}
		require.Equal(t, want, got.String())
	}
}

func TestMissingFileIsReplacedByFileOfPath(t *testing.T) {
	path, f := openLog(t, "one\ntwo\n")
	p := requireNext(t, f, "one\ntwo\n")
	require.NoError(t, os.WriteFile(path, []byte("quite another\n"), 0o600))
	again, found := Resume(optionsOf(path), Place{Mark: p.Mark, Offset: p.To})
	require.False(t, found)
	defer again.Close()
	requireNext(t, again, "quite another\n")
}

func TestFilesThatAreAlikeAreToldApartByTheirIdentity(t *testing.T) {
	path, f := openLog(t, "same\nsame\n")
	p := requireNext(t, f, "same\nsame\n")
	if p.Mark.ID == "" {
		t.Skip("this system has no identities of files")
	}
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, os.WriteFile(path, []byte("same\nsame\nsame\n"), 0o600))
	again, found := Resume(optionsOf(path), Place{Mark: p.Mark, Offset: p.To})
	require.True(t, found)
	defer again.Close()
	require.Zero(t, requireNext(t, again, "same\nsame\nsame\n").From)
}

func TestBeginIsTheStartOfALine(t *testing.T) {
	path, _ := openLog(t, "one\ntwo\nthree\n")
	for most, want := range map[int64]int64{100: 0, 14: 0, 13: 4, 10: 4, 9: 8, 6: 8, 5: 14, 1: 14} {
		f, err := openFile(path, 0)
		require.NoError(t, err)
		require.NoError(t, f.last(most))
		require.Equal(t, want, f.offset, most)
		f.close()
	}
}

func TestOnlyNamesThatRotationGivesAreSiblings(t *testing.T) {
	path, _ := openLog(t, "one\n")
	for _, ending := range []string{".1", "-20260101", ".2026-01-01T00:00", ".bz2", ".bak", ".2.gz",
		"2"} {
		require.NoError(t, os.WriteFile(path+ending, nil, 0o600))
	}
	var endings []string
	for _, path := range (Log{Path: path}).rotatedPaths() {
		endings = append(endings, strings.TrimPrefix(filepath.Base(path), "log"))
	}
	require.ElementsMatch(t, []string{".1", "-20260101", ".2026-01-01T00:00", ".2.gz"}, endings)
}
