package follow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
)

func cleaner(field ...string) (*Cleaner, *[]string) {
	said := new([]string)
	return &Cleaner{
		Notes: &Notes{Say: func(text string) { *said = append(*said, text) }}, Field: field,
	}, said
}

func TestCleanLinesAreUTF8(t *testing.T) {
	for raw, want := range map[string]string{
		"one\r\ntwo\r\n": "one\ntwo\n",
		"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\n": "red x\n",
		"Gr\xfc\xdfe aus K\xf6ln\n":                "Grüße aus Köln\n",
		"cut within \xe6\x97\xa5\xe6\x97\n":        "cut within \xe6\x97\xa5\xe6\x97\n",
		"\ufeffone\n":                              "one\n",
		"a\x00b\n\x00\x00\x00c\n":                  "ab\nc\n",
		"8=FIX.4.2\x019=65\x0135=A\x01\n":          "8=FIX.4.2\x019=65\x0135=A\x01\n",
		"x\x01\x02\x03\x04\x05\n":                  "",
		"\n\n":                                     "\n\n",
		"half":                                     "half",
	} {
		c, _ := cleaner()
		require.Equal(t, want, string(c.Clean([]byte(raw))), "%q", raw)
	}
}

func TestCleanCutsLongLinesBetweenCharacters(t *testing.T) {
	for _, front := range []string{"y", "é", "8=\x01four"} {
		for _, char := range []string{"é", "日", "😀"} {
			for room := range 4 {
				begin := strings.Repeat(front, (lineMax-room)/len(front))
				begin += strings.Repeat("z", lineMax-room-len(begin))
				c, _ := cleaner()
				got := string(c.Clean([]byte(begin + char + char + "\n")))
				want := begin + strings.Repeat(char, room/len(char))
				require.Equal(t, want+"\n", got, "%s %s %d", front, char, room)
				require.EqualValues(t, len(begin+char+char)-len(want), c.Notes.Skipped())
			}
		}
	}
}

func TestCleanJoinsWhatARuntimeHasSplit(t *testing.T) {
	const at = "2026-11-21T03:25:33.123456789Z "
	long := strings.Repeat("y", lineMax)
	raw := at + "stdout F one\n" + at + "stdout P two\n" + at + "stdout P , three\n" +
		at + "stdout F , four\n" + at + "stderr P five\n" + at + "stdout F six\n" +
		at + "stderr F seven\n" + at + "stdout P " + long + "\n" + at + "stdout F rest\nno CRI\n"
	want := at + "stdout F one\n" + at + "stdout P two, three, four\n" + at + "stderr P five\n" +
		at + "stdout F six\n" + at + "stderr F seven\n" + (at + "stdout P " + long)[:lineMax] +
		"\nno CRI\n"
	for _, at := range []int{0, len(raw) / 2, len(raw) - 10} {
		c, _ := cleaner()
		text := string(c.Clean([]byte(raw[:at])))
		text += string(c.Clean([]byte(raw[at:])))
		require.Equal(t, want, text)
	}
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(raw), 0o600))
	for from := range len(raw) {
		before := raw[:from]
		if !strings.HasSuffix(before, "\n") && from%1000 > 0 || from == 0 {
			continue
		}
		c, _ := cleaner()
		given := len(c.Clean([]byte(before)))
		require.Equal(t, want[given:], resumed(t, optionsOf(path), from), from)
	}
}

func resumed(t *testing.T, o Options, from int) string {
	f, found := Resume(o, Place{Offset: int64(from)})
	require.True(t, found)
	defer f.Close()
	var text strings.Builder
	for p := f.Peek(); p.To > p.From; p = f.Peek() {
		text.Write(p.Text)
	}
	return text.String()
}

func TestCleanJoinsWhatDockerHasSplit(t *testing.T) {
	part := func(log, stream string) string {
		return fmt.Sprintf(`{"log":%q,"stream":%q,"time":"2026-11-21T03:25:33.1Z"}`+"\n", log,
			stream)
	}
	long := strings.Repeat("y", dockerPart)
	raw := part("one\n", "stdout") + part(long, "stdout") + part(long, "stdout") + part("rest\n",
		"stdout") +
		part("two\n", "stdout") + part(long, "stdout") + part("three\n", "stderr") + part("four",
		"stderr") +
		part(`{"log":"five"}`+"\n", "stdout")
	want := "one\n" + long + "\ntwo\n" + long + "\nthree\nfour\n" + `{"log":"five"}` + "\n"
	c, _ := cleaner("log")
	require.Equal(t, want, string(c.Clean([]byte(raw))))
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(raw), 0o600))
	o := optionsOf(path)
	o.Field = []string{"log"}
	for from := 1; from <= len(raw); from++ {
		if raw[from-1] != '\n' {
			continue
		}
		c, _ := cleaner("log")
		given := len(c.Clean([]byte(raw[:from])))
		require.Equal(t, want[given:], resumed(t, o, from), from)
	}
}

func TestCleanFieldIsTheValueAlone(t *testing.T) {
	line := `{"message":"a\nb\r\n","n":12,"http":{"path":"/x","a/b":[1,{"c":null}]}}`
	for field, want := range map[string]string{
		"message": `a\nb`, "n": "12", "/http/path": "/x", "/http/a~1b/1": `{"c":null}`,
		"none": line, "/http/a~1b/7": line,
	} {
		c, _ := cleaner(ParseField(field)...)
		require.Equal(t, want+"\n", string(c.Clean([]byte(line+"\n"))), field)
		require.Equal(t, "no JSON\n", string(c.Clean([]byte("no JSON\n"))))
	}
}

func TestCleanSkipsWhatIsNoText(t *testing.T) {
	c, said := cleaner()
	long := strings.Repeat("y", 3*lineMax)
	var text []byte
	for range 2 {
		for part := range slices.Chunk([]byte(long+"\nnext\n"), pieceBytes) {
			text = append(text, c.Clean(part)...)
		}
	}
	require.Equal(t, strings.Repeat(long[:lineMax]+"\nnext\n", 2), string(text))
	require.EqualValues(t, 4*lineMax, c.Notes.Skipped())
	random, given := make([]byte, 1<<20), 0
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	for part := range bytes.Lines(random) {
		given += len(c.Clean(part))
	}
	require.Less(t, given, len(random)/20)
	require.Contains(t, *said, "binary lines are skipped")
	require.Len(t, *said, 4, "each is told once: %v", *said)
}

func TestLongLineIsSkippedAfterARestart(t *testing.T) {
	path, f := openLog(t, "one\n"+strings.Repeat("y", 2*lineMax))
	collect(t, f, "one\n"+strings.Repeat("y", lineMax))
	place := Place{Mark: f.files[0].mark(), Offset: f.files[0].offset}
	out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = out.WriteString(strings.Repeat("y", lineMax) + "\nnext\n")
	require.NoError(t, err)
	require.NoError(t, out.Close())
	again, found := Resume(optionsOf(path), place)
	require.True(t, found)
	defer again.Close()
	collect(t, again, "\nnext\n")
}

// NULs followed by text are skipped. At NULs up to the end of the file, the follower waits: a
// program may have reserved this space for its output.
func TestHolesArePassedOver(t *testing.T) {
	path, f := openLog(t, "one\n")
	requireNext(t, f, "one\n")
	require.NoError(t, os.Truncate(path, 64<<20))
	for range 3 {
		require.Empty(t, f.Peek().Text)
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer out.Close()
	_, err = out.WriteAt([]byte("two\n"), 4)
	require.NoError(t, err)
	requireNext(t, f, "two\n")
	_, err = out.WriteAt([]byte("three\n"), 64<<20)
	require.NoError(t, err)
	requireNext(t, f, "three\n")
	require.EqualValues(t, 64<<20-8, f.Skipped())
}

func TestUTF16IsRead(t *testing.T) {
	for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		want := "the first line, \u4e0a\u0a0a\u0a00\nand another\n"
		encoder := unicode.UTF16(order, unicode.UseBOM).NewEncoder()
		raw, err := encoder.String(strings.ReplaceAll(want, "\n", "\r\n"))
		require.NoError(t, err)
		path, f := openLog(t, raw)
		requireNext(t, f, want)
		f, found := Resume(optionsOf(path), Place{Mark: f.files[0].mark(), Skip: 20})
		require.True(t, found)
		p := requireNext(t, f, want[20:])
		require.EqualValues(t, 20, p.Skip)
		f.Close()
		last := Open(Options{Log: Log{Path: path}, Last: 40})
		requireNext(t, last, "and another\n")
		last.Close()
	}
}

func packedBytes(t *testing.T, ending, text string) []byte {
	var out bytes.Buffer
	if ending == ".gz" {
		w := gzip.NewWriter(&out)
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll([]byte(text), nil)
}

func logText(from, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "line %d of a log that is rotated\n", from+i)
	}
	return text.String()
}

func collect(t *testing.T, f *Follower, want string) {
	t.Helper()
	var got strings.Builder
	require.Eventually(t, func() bool {
		got.WriteString(string(f.Peek().Text))
		return got.Len() >= len(want)
	}, 2*leaveAfter, time.Microsecond)
	require.Equal(t, want, got.String())
}

func TestRotatedFilesAreFoundByAnyName(t *testing.T) {
	for _, names := range [][2]string{
		{"app.log.2", "app.log.1"}, {"app.log-20260101", "app.log-20260102"},
		{"app-2026-01-01.log", "app-2026-01-02.log"}, {"app.2026-01-01.log", "app.2026-01-02.log"},
		{"app.2.log", "app.1.log"}, {"old/app.log.2", "old/app.log.1"},
		{"20260101-app.log", "20260102-app.log"}, {"app.log.2.gz", "app.log.1"},
		{"app.log-20260101.zst", "app.log-20260102.gz"}, {"old/app-2026-01-01-1.log.gz",
			"app.1.log"},
		{"whatever", "app.log.1"}, {"app.log.2026-01-01T10:00:00.gz",
			"app.log.2026-01-01T11:00:00"},
	} {
		t.Run(strings.ReplaceAll(strings.Join(names[:], " "), "/", "_"), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "app.log")
			require.NoError(t, os.Mkdir(filepath.Join(dir, "old"), 0o700))
			read := logText(0, 2000)
			require.NoError(t, os.WriteFile(path, []byte(read), 0o600))
			f := Open(optionsOf(path))
			collect(t, f, read)
			place := Place{Mark: f.files[0].mark(), Offset: f.files[0].offset}
			f.Close()
			clock := time.Now().Add(-time.Hour)
			put := func(name, text string) {
				to := filepath.Join(dir, name)
				if _, packed := unpackedName(name); packed {
					require.NoError(t, os.WriteFile(to, packedBytes(t, filepath.Ext(name), text),
						0o600))
					_ = os.Remove(path)
				} else {
					require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
					require.NoError(t, os.Rename(path, to))
				}
				clock = clock.Add(time.Minute)
				require.NoError(t, os.Chtimes(to, clock, clock))
			}
			put(names[0], read+logText(2000, 900))
			put(names[1], logText(2900, 10))
			require.NoError(t, os.WriteFile(path, []byte(logText(2910, 5)), 0o600))
			again, found := Resume(optionsOf(path), place)
			require.True(t, found)
			defer again.Close()
			collect(t, again, logText(2000, 915))
		})
	}
}

func TestOtherLogsAreNoRotatedFiles(t *testing.T) {
	for _, name := range []string{
		"app-2.log", "app2.log", "my-app.log", "app.log", "app.error.log", "2-app.log",
		"app.log.bak",
	} {
		require.False(t, wasNamed("app.log", name), name)
	}
}

func TestHistoryIsReadFromRotatedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	require.NoError(t, os.WriteFile(path+".2.gz", packedBytes(t, ".gz", logText(0, 100)), 0o600))
	clock := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path+".2.gz", clock, clock))
	require.NoError(t, os.WriteFile(path+".1", []byte(logText(100, 10)), 0o600))
	clock = clock.Add(time.Minute)
	require.NoError(t, os.Chtimes(path+".1", clock, clock))
	require.NoError(t, os.WriteFile(path, []byte(logText(110, 3)), 0o600))
	want := logText(95, 18)
	f := Open(Options{Log: Log{Path: path}, Last: int64(len(want))})
	defer f.Close()
	collect(t, f, want)
}

// After a truncation, the unread text is read from a compressed copy of the file.
func TestCompressedCopiesAreRead(t *testing.T) {
	path, f := openLog(t, logText(0, 50))
	collect(t, f, logText(0, 50))
	copied := packedBytes(t, ".gz", logText(0, 60))
	require.NoError(t, os.WriteFile(path+".1.gz", copied, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(logText(60, 2)), 0o600))
	collect(t, f, logText(50, 12))
}

func BenchmarkClean(b *testing.B) {
	text := []byte(logText(1000, 600)[:pieceBytes])
	c := Cleaner{Notes: &Notes{}}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Clean(text)
	}
}

func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	pods := filepath.Join(dir, "pods")
	require.NoError(t, os.Mkdir(pods, 0o700))
	target, path := filepath.Join(pods, "0.log"), filepath.Join(dir, "app.log")
	require.NoError(t, os.WriteFile(target, []byte(logText(0, 3)), 0o600))
	if err := os.Symlink(target, path); err != nil {
		t.Skip("links: ", err)
	}
	f := Open(optionsOf(path))
	collect(t, f, logText(0, 3))
	place := Place{Mark: f.files[0].mark(), Offset: f.files[0].offset}
	f.Close()
	require.NoError(t, os.WriteFile(target, []byte(logText(0, 5)), 0o600))
	require.NoError(t, os.Rename(target, target+".20260101-120000"))
	clock := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(target+".20260101-120000", clock, clock))
	require.NoError(t, os.WriteFile(target, []byte(logText(5, 2)), 0o600))
	f, found := Resume(optionsOf(path), place)
	require.True(t, found)
	defer f.Close()
	collect(t, f, logText(3, 4))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(filepath.Join(pods, "1.log"), []byte(logText(7, 2)), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(pods, "1.log"), path))
	collect(t, f, logText(7, 2))
}

func TestPatternsNameLogs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"app-2026-01-01.log", "app-2026-01-02.log", "app-2026-01-01.log.gz", "web.log", "web.log.1",
		"web.log-20260101", "worker-1.log", "worker-2.log",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "old.log"), 0o700))
	logs, err := Match(filepath.Join(dir, "*.log*"))
	require.NoError(t, err)
	var names []string
	for _, l := range logs {
		names = append(names, filepath.Base(l.Path))
	}
	require.Equal(t, []string{"app-*.log", "web.log", "worker-1.log", "worker-2.log"}, names)
	require.Equal(t, filepath.Join(dir, "app-2026-01-02.log"), logs[0].current())
}
