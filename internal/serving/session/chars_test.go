package session

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

const cyrillic = "Съешь же ещё этих мягких\nфранцузских булок, да выпей чаю.\n"

// Every report counts UTF-8 characters correctly, wherever requests split the text. The counts are
// also right after a restart, in a fork, and on another server.
func TestCharsMeanTheSameEverywhere(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	var chunks, lines int64
	var sum Summary
	for _, piece := range []string{cyrillic[:7], cyrillic[7:]} {
		var err error
		sum, err = sv.mg.Score(background, Caller{}, id, strings.NewReader(piece),
			ScoreOptions{Lines: true},
			func(c Chunk) error {
				chunks += c.Chars
				for _, l := range c.Lines {
					lines += l.Chars
				}
				require.EqualValues(t, chunks, c.Total.Chars)
				return nil
			})
		require.NoError(t, err)
	}
	want := int64(utf8.RuneCountInString(cyrillic))
	require.Less(t, want, int64(len(cyrillic)))
	require.Equal(t, []int64{want, want, want}, []int64{chunks, lines, sum.Total.Chars})
	require.EqualValues(t, utf8.RuneCountInString(cyrillic)-4, sum.Chars,
		"of the request: 4 came before")

	for _, told := range []string{"of a session in use", "of one that is in the store alone"} {
		require.Equal(t, want, get(t, sv.mg, id).Chars, told)
		past, err := sv.mg.Scores(background, Caller{}, id, 0, PastBytesMax, 3)
		require.NoError(t, err)
		sum := int64(0)
		for _, p := range past.Scores {
			sum += p.Chars
		}
		require.Equal(t, want, sum)
		sv.restart()
	}

	var file bytes.Buffer
	require.NoError(t, sv.mg.Export(background, Caller{}, id, 0, &file, nil))
	moved, err := newManager(t, Options{}).Import(background, Caller{}, &file, "")
	require.NoError(t, err)
	require.Equal(t, want, moved.Chars)

	at := int64(testChunk + 5)
	fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
	require.NoError(t, err)
	score(t, sv.mg, fork.ID, cyrillic[at:])
	require.Equal(t, want, get(t, sv.mg, fork.ID).Chars)
	require.Empty(t, sv.told())
}

// Older versions of the server counted every byte as a character. The counts that they stored are
// not corrected.
func TestCharsOfAnOlderProgramStay(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id, twin := create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{})
	_, sum := score(t, sv.mg, twin, "éé")
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	older := storage.Record{UnixMS: 1, Bits: sum.Bits, Text: []byte("éé")}
	require.NoError(t, sv.store.Append(background, id, found.Epoch, 0, older))
	sv.restart()
	require.EqualValues(t, 4, get(t, sv.mg, id).Chars)
	_, sum = score(t, sv.mg, id, "éé")
	require.EqualValues(t, 2, sum.Chars)
	require.EqualValues(t, 6, sum.Total.Chars)
	require.Empty(t, sv.told())
	sv.restart()
	require.EqualValues(t, 6, get(t, sv.mg, id).Chars)
	score(t, sv.mg, id, "!")
	require.EqualValues(t, 7, get(t, sv.mg, id).Chars)
}

func TestRecordWithWrongCountIsRefused(t *testing.T) {
	h := &head{Settings: stream.DefaultsFor(testModel(t), stream.Static)}
	for _, r := range []storage.Record{
		{Continued: 11}, {Continued: -1}, {Continued: 1, Words: &storage.Words{}},
	} {
		err := h.checkEnd(storage.Session{End: 10, Last: &r})
		require.ErrorContains(t, err, "continuation bytes of UTF-8 characters, expected 0 to ")
	}
	before := storage.Record{Continued: 3}
	require.ErrorContains(t, h.checkRecord(before, 4, storage.Record{Continued: 2,
		Text: []byte("é")}),
		"has a count of 2 continuation bytes of UTF-8 characters, expected 3 to 6")
}

func TestExportWithWrongCountIsRefused(t *testing.T) {
	of := newManager(t, Options{})
	id := create(t, of, CreateRequest{})
	score(t, of, id, cyrillic)
	ofWords := newManagerOf(t, wordModel(t), Options{})
	refused(t, of, id, func(x *changeable) { x.records[0].Continued = 255 },
		"the record at offset 0 has a count of 255 continuation bytes")
	refused(t, of, id, func(x *changeable) { x.last().Continued++ }, "the state has the counts")
	refused(t, of, id, func(x *changeable) {
		for i := range x.records {
			x.records[i].Continued = 0
		}
	}, "the state has the counts")
	id = create(t, ofWords, CreateRequest{})
	score(t, ofWords, id, "a\n")
	refused(t, ofWords, id, func(x *changeable) { x.last().Continued = 1 },
		"continuation bytes of UTF-8 characters, expected 0 to 0")
	refused(t, ofWords, id, func(x *changeable) { x.last().Words = nil },
		"has word counts: found false, expected true")
}
