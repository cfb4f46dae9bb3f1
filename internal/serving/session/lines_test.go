package session

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// watch feeds a text and asks for lines. It returns the finished lines and the unfinished last
// line.
func watch(
	t fatal, mg *Manager, id string, o ScoreOptions, body ...string,
) (ended []Line, rest *Line) {
	t.Helper()
	o.Lines = true
	sum, err := mg.Score(background, Caller{}, id, (*reads)(&body), o, func(c Chunk) error {
		ended = append(ended, c.Lines...)
		return nil
	})
	require.NoError(t, err)
	return ended, sum.Rest
}

// linesOf computes the expected lines of a text from the log-probabilities of the text's bytes,
// without a Manager.
func linesOf(trouble, text string, from int64, logProbs []float64) (all []Line) {
	m := lines.NewMeter()
	m.Trouble(trouble)
	for i := range len(text) {
		m.Add(text[i], max(0, -logProbs[i]/math.Ln2), 0, func(l *lines.Line) {
			all = append(all, Line{
				Number: l.Number, Offset: from + l.Offset, Bytes: l.Bytes, Chars: l.Chars,
				Bits:        l.Bits,
				Strangeness: l.Strangeness, Text: bytes.Clone(l.Text), Why: l.Why(),
				Incidents: incidentsOf(l.Incidents),
				TokenBits: append([]float32{}, l.Costs...), Ended: true,
			})
		})
	}
	return all
}

func incidentsOf(events []incidents.Incident) (all []IncidentReport) {
	for _, e := range events {
		all = append(all, IncidentReport{Incident: e})
	}
	return all
}

func whole(first, count int) string {
	var b strings.Builder
	for i := first; i < first+count; i++ {
		fmt.Fprintf(&b, "%d GET /%d\n", i%10, i*i%7)
	}
	return b.String()
}

// happens draws an event that must not change the bits of a session, such as a restart, or no
// event. It returns the id under which the session continues.
func happens(rt *rapid.T, sv *server, id string) string {
	switch rapid.IntRange(0, 6).Draw(rt, "then") {
	case 0:
		sv.restart()
	case 1:
		sv.keep(id)
	case 2:
		sv.keep(id)
		sv.evict(id)
	case 3:
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{})
		require.NoError(rt, err)
		return info.ID
	case 4:
		var file bytes.Buffer
		require.NoError(rt, sv.mg.Export(background, Caller{}, id, 0, &file, nil))
		info, err := sv.mg.Import(background, Caller{}, &file, "")
		require.NoError(rt, err)
		return info.ID
	}
	return id
}

// The reported lines of a session depend only on its text and on the offset of the first line.
// Neither the split of the text nor restarts or forks change the lines.
func TestLinesAreAFunctionOfTheTextAndOfWhereTheyBegin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{ReplayMax: time.Hour, Threads: 2})
		defer func() { sv.stop() }()
		id := create(rt, sv.mg, CreateRequest{})
		before := whole(0, 2)[:rapid.IntRange(0, 15).Draw(rt, "before")]
		score(rt, sv.mg, id, before)
		text := whole(2, rapid.IntRange(1, 12).Draw(rt, "lines"))
		_, logProbs := alone(rt, testModel(t), CreateRequest{Seed: new(uint64(3))}, before+text)
		from := int64(len(before))
		trouble := rapid.SampledFrom([]string{"", "et"}).Draw(rt, "trouble")
		want := linesOf(trouble, text, from, logProbs[from:])

		var found []Line
		options := ScoreOptions{Text: true, TokenBits: true, TroubleWords: trouble}
		for n, body := range cut(rt, text, 60) {
			if n > 0 && rapid.IntRange(0, 3).Draw(rt, "without lines") == 0 {
				// after a request without lines, the session still computes its lines
				score(rt, sv.mg, id, body)
				end := get(rt, sv.mg, id).Offset
				for _, l := range want[len(found):] {
					if l.Offset+l.Bytes <= end {
						found = append(found, l)
					}
				}
			} else {
				ended, rest := watch(rt, sv.mg, id, options, cut(rt, body, 30)...)
				found = append(found, ended...)
				options.TroubleWords = ""
				require.Equal(rt, strings.HasSuffix(body, "\n"), rest == nil)
				if rest != nil {
					require.False(rt, rest.Ended)
					require.Equal(rt, int64(len(found)+1), rest.Number)
				}
			}
			id = happens(rt, sv, id)
		}
		require.Equal(rt, want, found)
		require.Empty(rt, sv.told())
	})
}

// The first request for lines fixes the list of trouble words. A fork that begins later inherits
// the list.
func TestWordsOfTroubleAreThoseOfTheFirstLines(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	fork := func(at int64) string {
		info, err := mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		return info.ID
	}
	score(t, mg, id, whole(0, 1))
	with := func(list string) ScoreOptions { return ScoreOptions{Lines: true, TroubleWords: list} }
	watch(t, mg, id, with("error"), whole(1, 1))
	watch(t, mg, id, with("error"), whole(2, 1))
	watch(t, mg, fork(get(t, mg, id).Offset), with(""), whole(2, 1))
	watch(t, mg, fork(1), with("fail"), whole(2, 1))
	plain := create(t, mg, CreateRequest{})
	watch(t, mg, plain, with(""), whole(2, 1))
	for of, want := range map[string]string{
		id:    `trouble_words: found "fail", expected "error", the session's list`,
		plain: `trouble_words: found "fail", expected none, the session's list`,
	} {
		for _, learn := range []string{LearnTrue, LearnFalse} {
			o := with("fail")
			o.Learn = learn
			_, err := mg.Score(background, Caller{}, of, strings.NewReader("a\n"), o, noChunks)
			require.ErrorContains(t, err, want)
		}
	}
}

// If the original session began to report lines before the fork's offset, the fork reports the same
// lines.
func TestForkHasLinesOfItsText(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, whole(0, 3))
	began := get(t, sv.mg, id).Offset
	all, _ := watch(t, sv.mg, id, ScoreOptions{}, whole(3, 9))
	fork := func(at int64) string {
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		return info.ID
	}
	later := fork(all[4].Offset + 3)
	sv.restart()
	rest := whole(3, 9)[all[4].Offset+3-began:]
	again, _ := watch(t, sv.mg, later, ScoreOptions{}, rest)
	require.Equal(t, all[4:], again)

	earlier, _ := watch(t, sv.mg, fork(began-2), ScoreOptions{}, whole(3, 1))
	require.Equal(t, int64(1), earlier[0].Number)
	require.Equal(t, began-2, earlier[0].Offset)
}

func TestLinesChangeNoScore(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	a, b := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	watch(t, mg, a, ScoreOptions{}, whole(0, 9))
	score(t, mg, b, whole(0, 9))
	one, _ := score(t, mg, a, whole(9, 9))
	other, _ := score(t, mg, b, whole(9, 9))
	require.Equal(t, logProbs(other), logProbs(one))
	require.Equal(t, get(t, mg, b).Tally, get(t, mg, a).Tally)
}

func TestLinesOfReadAndLearnedTextAreEqualUpToUpdate(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{Settings: Settings{"chunk": 64, "baseline": true}})
	watch(t, mg, id, ScoreOptions{}, whole(0, 1))
	was := hash(t, mg, id)
	o := ScoreOptions{Learn: LearnFalse, Text: true}
	read, rest := watch(t, mg, id, o, whole(1, 3), "and")
	require.Equal(t, was, hash(t, mg, id))
	learnt, restLearnt := watch(t, mg, id, ScoreOptions{Text: true}, whole(1, 3), "and")
	require.Equal(t, learnt, read)
	require.Equal(t, restLearnt, rest)
	require.Equal(t, "and", string(rest.Text))
	require.NotNil(t, rest.BaselineBits)
}

func TestUnlearnedTextIsPartOfLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{ReplayMax: time.Hour, Threads: 2})
		defer func() { sv.stop() }()
		// The threshold flags about a third of all lines.
		o := ScoreOptions{Learn: LearnUnflagged, Threshold: 0.3}
		method := rapid.SampledFrom([]string{MethodSparseMeta, MethodDynamicSGD}).Draw(rt, "method")
		r := CreateRequest{Settings: Settings{"method": method}}
		id, undisturbed := create(rt, sv.mg, r), create(rt, sv.mg, r)
		text := strangeText()
		want, _ := watch(rt, sv.mg, undisturbed, o, text)
		var found []Line
		for _, body := range cut(rt, text, 200) {
			ended, _ := watch(rt, sv.mg, id, o, cut(rt, body, 60)...)
			found = append(found, ended...)
			if rapid.IntRange(0, 6).Draw(rt, "fork") == 0 {
				at := rapid.Int64Range(0, get(rt, sv.mg, id).Offset).Draw(rt, "fork at")
				info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
				require.NoError(rt, err)
				rest := text[at:get(rt, sv.mg, id).Offset]
				watch(rt, sv.mg, info.ID, o, rest)
				require.Equal(rt, hash(rt, sv.mg, id), hash(rt, sv.mg, info.ID))
				id = info.ID
			}
			id = happens(rt, sv, id)
		}
		require.Equal(rt, want, found)
		require.Equal(rt, hash(rt, sv.mg, undisturbed), hash(rt, sv.mg, id))
		skipped := 0
		for _, l := range want {
			if l.Unlearnt {
				skipped++
			}
		}
		require.NotZero(rt, skipped, "or nothing was tested")
		require.Empty(rt, sv.told())
	})
}
