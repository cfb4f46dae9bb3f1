package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/weights"
)

// requireListed checks that a list of sessions is valid JSON and shows the session with an error.
func requireListed(t *testing.T, mg *Manager, id, says string) {
	t.Helper()
	page, _, err := mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.NotEmpty(t, page)
	for _, i := range append(page, get(t, mg, id)) {
		_, err := json.Marshal([]any{i.Tally, i.LastUsed})
		require.NoError(t, err)
		if i.ID == id {
			require.ErrorContains(t, i.Err, says)
		}
	}
}

func TestImportOfNonFiniteNumbersIsRefused(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	score(t, mg, id, logText(2*testChunk+3))
	arrays := 0
	for n, x := range takeApart(t, mg, id).state.Tensors {
		bad := map[weights.DType][]byte{
			weights.BF16: {0x80, 0x7f}, weights.F32: {0, 0, 0xc0, 0x7f}, weights.F64: {0, 0, 0, 0,
				0, 0, 0xf8, 0x7f},
		}[x.DType]
		if len(x.Data) < len(bad) || bad == nil {
			continue
		}
		arrays++
		refused(t, mg, id, func(x *changeable) { copy(x.state.Tensors[n].Data, bad) }, "finite")
	}
	require.Greater(t, arrays, 10)
	refused(t, mg, id, func(c *changeable) { // finite weights whose root mean square is +Inf
		for _, x := range c.state.Tensors {
			if strings.HasPrefix(x.Name, "fast.") {
				copy(x.Data, bytes.Repeat([]byte{0x7f}, len(x.Data)))
			}
		}
	}, "root mean square of the fast weights is +Inf, expected a finite number")
	for _, ms := range []int64{math.MinInt64, math.MaxInt64} { // JSON cannot represent these times
		refused(t, mg, id, func(x *changeable) { x.last().UnixMS = ms },
			"the record at offset ", fmt.Sprint(ms), "expected 0 to 253402300799999 ms")
	}
	for says, change := range map[string]func(h *head){
		`parent.id is "<b>", expected the id of a session`: func(h *head) {
			h.Parent =
				&Parent{ID: "<b>"}
		},
		"parent.offset is 36, expected at most 35": func(h *head) {
			h.Parent =
				&Parent{ID: id, Offset: 36}
		},
		`numerics[0].name is "", expected 1 to 64 letters`: func(h *head) {
			h.Numerics[0].Name =
				""
		},
		`numerics[0].name is "a\nb", expected`: func(h *head) {
			h.Numerics[0].Name =
				"a\nb"
		},
		"numerics[1].from is 36, expected at most 35": func(h *head) {
			h.noteNumerics(numerics{36,
				"x"})
		},
	} {
		refused(t, mg, id, func(x *changeable) { change(&x.head) }, "head: ", says)
	}
	page, _, err := mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// The model may compute numbers that are not finite, although all numbers in the session's state
// are finite. Then the fast weights are reset.
func TestSessionResetsFastWeightsThatDiverge(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	text := logText(testChunk)
	score(t, sv.mg, id, text)
	withSession(t, sv.mg, id, func(s *session) {
		for _, m := range s.stream.Fast.M {
			for i := range m.BF16 {
				m.BF16[i] = 0x7f7f // the largest finite bfloat16
			}
		}
		f, err := s.stream.Snapshot()
		require.NoError(t, err)
		s.stream, _, err = stream.Restore(sv.mg.engine.models[0].Model, s.Settings, f.Stored())
		require.NoError(t, err)
		s.rms = s.stream.FastRMS()
	})
	r := CompleteRequest{MaxTokens: 5, LogProbs: true}
	require.NoError(t, errOf(sv.mg.Complete(background, Caller{}, id, r, noPieces)))
	var chunks []Chunk
	keep := func(c Chunk) error {
		chunks = append(chunks, c)
		return nil
	}
	for _, learn := range []string{LearnFalse, LearnTrue} {
		chunks = nil
		in := strings.NewReader("more")
		sum, err := sv.mg.Score(background, Caller{}, id, in, ScoreOptions{Learn: learn}, keep)
		require.NoError(t, err)
		require.Equal(t, 1, sum.Divergences)
		require.Len(t, chunks, 2)
		require.True(t, chunks[0].Diverged)
		require.Equal(t, int64(1), chunks[0].Tokens)
		require.False(t, chunks[1].Diverged)
		require.Zero(t, chunks[1].FastRMS)
		require.LessOrEqual(t, sum.Bits, 4.*stream.TokenBitsMax)
	}
	require.Equal(t, text+"more", logged(t, sv.mg, id))
	withSession(t, sv.mg, id, func(s *session) {
		require.Equal(t, stream.Divergence{Count: 1, Offset: testChunk + 1, Step: 1},
			s.stream.Divergence)
	})
}

// An older version may have stored totals that are not finite. The session is then listed with an
// error.
func TestStoredTotalsThatAreNotFiniteAreListedAsAnError(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	for _, bits := range []float64{math.NaN(), math.Inf(1)} {
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, "text")
		found, err := sv.store.Claim(background, id)
		require.NoError(t, err)
		r := storage.Record{UnixMS: math.MaxInt64, Bits: bits, Text: []byte("!")}
		require.NoError(t, sv.store.Append(background, id, found.Epoch, 4, r))
		_, err = feed(sv, id, "x", 4)
		require.ErrorIs(t, err, storage.ErrFenced)
		_, err = feed(sv, id, "x", 5)
		require.Error(t, err, "it is claimed anew")
		require.ErrorContains(t, err, "expected finite numbers")
		sv.restart()
		requireListed(t, sv.mg, id, "expected finite numbers")
		require.ErrorAs(t, errOf(feed(sv, id, "x", 5)), new(*UnusableError))
		require.NoError(t, sv.mg.Delete(Caller{}, id))
	}
}
