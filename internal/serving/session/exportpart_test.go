package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// pieceBytes is the length of a record's text in these tests: half a chunk, so that a part can end
// within a chunk.
const pieceBytes = testChunk / 2

func pieces(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("%*d,", pieceBytes-1, i)
	}
	return text
}

// inPieces creates a session whose log has one record per piece of a text. It calls each with the
// offset after every piece.
func inPieces(
	t testing.TB, sv *server, r CreateRequest, text string, each func(at int),
) (id string) {
	id = create(t, sv.mg, r)
	for at := 0; at < len(text); at += pieceBytes {
		score(t, sv.mg, id, text[at:at+pieceBytes])
		each(at + pieceBytes)
	}
	return id
}

// inLog damages the log files of a stopped server. It calls change for each occurrence of text in
// the files.
func inLog(t testing.TB, dir, text string, change func(content []byte, at int)) {
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "log.*"))
	require.NoError(t, err)
	places := 0
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for from := 0; ; places++ {
			at := bytes.Index(content[from:], []byte(text))
			if at < 0 {
				break
			}
			change(content, from+at)
			from += at + 1
		}
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = out.WriteAt(content, 0)
		require.NoError(t, errors.Join(err, out.Close()))
	}
	require.NotZero(t, places)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
}

func flip(content []byte, at int) { content[at] ^= 1 }

// zeroPage sets the page of 4096 bytes around the given index to zero.
func zeroPage(content []byte, at int) { clear(content[at/4096*4096:][:4096]) }

// exportedPart exports the readable part of a session twice: from the running Manager and, after a
// stop, from the data folder. It checks that both exports are equal.
func exportedPart(t testing.TB, sv *server, id string) (file []byte, p Part) {
	var b, again bytes.Buffer
	parts := 0
	tell := func(told Part) {
		require.Zero(t, b.Len(), "before anything is written")
		p = told
		parts++
	}
	require.NoError(t, sv.mg.Export(background, Caller{}, id, 0, &b, tell))
	require.Equal(t, 1, parts)
	require.ErrorIs(t, p.Err, storage.ErrCorrupt)
	before, err := sv.store.Get(background, id)
	require.NoError(t, err)
	var offline Part
	require.NoError(t, ExportStored(background, sv.mg.engine.models[0].Model, sv.store, id, 1,
		&again,
		func(told Part) { offline = told }, nil))
	require.Equal(t, p.String(), offline.String())
	require.Equal(t, b.Bytes(), again.Bytes())
	after, err := sv.store.Get(background, id)
	require.NoError(t, err)
	require.Equal(t, before, after, "nothing claims the session or writes to it")
	return b.Bytes(), p
}

// An import, and an export from the data folder, report their progress. The progress of each step
// ends at its total.
func TestExportAndImportTellHowFarTheyAre(t *testing.T) {
	type far struct{ done, total int64 }
	var parts []string
	last := map[string]far{}
	tell := func(what string, done, total int64) {
		if _, known := last[what]; !known {
			parts = append(parts, what)
		}
		require.GreaterOrEqual(t, done, last[what].done)
		require.Positive(t, total)
		last[what] = far{done, total}
	}
	sv := newServer(t, t.TempDir(), Options{Importing: tell})
	defer func() { sv.stop() }()
	text := pieces(8)
	id := inPieces(t, sv, CreateRequest{}, text, func(int) {})
	sv.stop()
	sv.start()
	var file bytes.Buffer
	require.NoError(t, ExportStored(background, sv.mg.engine.models[0].Model, sv.store, id, 1,
		&file,
		func(Part) { t.Error("a part") }, tell))
	_, err := sv.mg.Import(background, Caller{}, &file, "")
	require.NoError(t, err)
	require.Equal(t, []string{"reading the text", "checking", "storing"}, parts)
	for _, what := range parts {
		require.Equal(t, last[what].total, last[what].done, what)
	}
}

// isTheSession imports a file on another server. It checks that the result equals a session that
// was fed only the given text.
func isTheSession(t testing.TB, r CreateRequest, file []byte, text string) {
	mg := newManager(t, Options{})
	info, err := mg.Import(background, Caller{}, bytes.NewReader(file), "")
	require.NoError(t, err)
	require.Equal(t, int64(len(text)), info.Offset)
	want, _ := alone(t, mg.engine.models[0].Model, r, text)
	require.Equal(t, want.Hash(), hash(t, mg, info.ID))
	more := logText(3 * testChunk)
	score(t, mg, info.ID, more)
	want, _ = alone(t, mg.engine.models[0].Model, r, text+more)
	require.Equal(t, want.Hash(), hash(t, mg, info.ID), "it goes on to the same bits")
}

func TestTouchedSessionIsExportedAsFarAsItGoes(t *testing.T) {
	text := pieces(19)
	last := len(text) - pieceBytes
	for name, c := range map[string]struct {
		bad  int // offset of the damaged record
		keep int // offset of the only snapshot; 0 means no snapshot
		hurt bool
	}{
		"in the middle":                       {bad: 5 * pieceBytes},
		"in the middle, a snapshot before it": {bad: 5 * pieceBytes, keep: 4 * pieceBytes},
		"in the middle, a snapshot at it":     {bad: 5 * pieceBytes, keep: 5 * pieceBytes},
		"in the middle, a snapshot behind it": {bad: 5 * pieceBytes, keep: 7 * pieceBytes},
		"in the middle, a snapshot too": {bad: 5 * pieceBytes, keep: 4 * pieceBytes,
			hurt: true},
		"at the end": {bad: last, keep: 4 * pieceBytes},
	} {
		t.Run(name, func(t *testing.T) {
			sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
			defer func() { sv.stop() }()
			r := CreateRequest{Seed: ptr(uint64(3)), Labels: map[string]string{"a": "b"}}
			id := inPieces(t, sv, r, text, func(at int) {
				if at == c.keep {
					sv.keep(id0(sv))
				}
			})
			sv.stop()
			inLog(t, sv.dir, text[c.bad:][:pieceBytes], flip)
			if c.hurt {
				files := stateFiles(t, sv.dir)
				require.Len(t, files, 1)
				require.NoError(t, os.Truncate(files[0], 10))
			}
			sv.start()
			info := get(t, sv.mg, id)
			require.Equal(t, r.Labels, info.Labels, "the head reads")
			if c.bad == last {
				require.ErrorIs(t, info.Err, storage.ErrCorrupt)
				require.Equal(t, int64(last), info.Offset)
				_, err := sv.mg.Score(background, Caller{}, id, strings.NewReader("x"),
					ScoreOptions{}, nil)
				require.ErrorAs(t, err, new(*UnusableError))
			}
			file, p := exportedPart(t, sv, id)
			require.Zero(t, p.Start)
			require.Equal(t, int64(c.bad), p.End)
			isTheSession(t, r, file, text[:c.bad])
			require.NoError(t, sv.mg.Delete(Caller{}, id))
			sv.told()
		})
	}
}

// id0 returns the id of the only session.
func id0(sv *server) string {
	page, _, err := sv.mg.List(Caller{}, "", 0)
	if err != nil || len(page) != 1 {
		panic(fmt.Sprint(page, err))
	}
	return page[0].ID
}

// A page of the log is lost. The session's owner can still export the session, up to the last good
// record.
func TestSessionThatLostPageIsExportedByItsOwner(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	who, r := Caller{Key: "alice"}, CreateRequest{Seed: ptr(uint64(3)), TTL: time.Hour}
	text := pieces(600)
	info, err := sv.mg.Create(background, who, r)
	require.NoError(t, err)
	for at := 0; at < len(text); at += pieceBytes {
		_, err := sv.mg.Score(background, who, info.ID, strings.NewReader(text[at:at+pieceBytes]),
			ScoreOptions{}, noChunks)
		require.NoError(t, err)
	}
	sv.stop()
	inLog(t, sv.dir, text[len(text)/2:][:pieceBytes], zeroPage)
	sv.start()
	sv.told()
	_, err = sv.mg.Score(background, who, info.ID, strings.NewReader("x"), ScoreOptions{}, noChunks)
	require.ErrorIs(t, err, storage.ErrCorrupt, "the state cannot be computed again")
	require.ErrorAs(t, err, new(*UnusableError))
	found, err := sv.mg.Get(who, info.ID)
	require.NoError(t, err)
	require.Equal(t, int64(len(text)), found.Offset, "the records behind the page are there")
	_, err = sv.mg.Get(Caller{Key: "bob"}, info.ID)
	require.ErrorIs(t, err, ErrNotFound)
	var file bytes.Buffer
	var p Part
	require.NoError(t, sv.mg.Export(background, who, info.ID, 0, &file, func(told Part) {
		p =
			told
	}))
	require.Equal(t, int64(len(text)), p.Known)
	require.Positive(t, p.End)
	require.Less(t, p.End, p.Known)
	isTheSession(t, r, file.Bytes(), text[:p.End])
}

func TestWhereNothingCanBeExportedTheErrorSaysWhy(t *testing.T) {
	text := pieces(8)
	t.Run("no text", func(t *testing.T) {
		sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
		defer func() { sv.stop() }()
		id := inPieces(t, sv, CreateRequest{}, text, func(int) {})
		sv.stop()
		inLog(t, sv.dir, text[:pieceBytes], flip)
		sv.start()
		err := sv.mg.Export(background, Caller{}, id, 0, io.Discard,
			func(Part) { t.Error("a part") })
		require.ErrorAs(t, err, new(*UnusableError))
		require.ErrorContains(t, err, "no text of the session can be read")
		require.ErrorContains(t, err, "lmserve sessions rescue")
		err = ExportStored(background, sv.mg.engine.models[0].Model, sv.store, id, 1, io.Discard,
			nil, nil)
		require.ErrorContains(t, err, "rescue")
		sv.told()
	})
	t.Run("no state", func(t *testing.T) {
		sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
		defer func() { sv.stop() }()
		id := create(t, sv.mg, CreateRequest{History: HistoryTail})
		score(t, sv.mg, id, text+"abc")
		sv.stop()
		sv.spoilSnapshots()
		sv.start()
		err := sv.mg.Export(background, Caller{}, id, 0, io.Discard,
			func(Part) { t.Error("a part") })
		require.ErrorContains(t, err, "no snapshot is readable")
		require.ErrorContains(t, err, "lmserve sessions rescue")
		sv.told()
	})
}
