package lines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTroubleWordsAreReadOrRefused(t *testing.T) {
	list, err := TroubleWords("# ours\nError fail # two\n\nошибка\nerror\n")
	require.NoError(t, err)
	require.Equal(t, "error fail ошибка", list)
	again, err := TroubleWords(TroubleDefault)
	require.NoError(t, err)
	require.Equal(t, TroubleDefault, again)
	var most []string
	for i := range TroubleBytesMax/4 + 1 {
		most = append(most, string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26),
			'a' + byte(i/676)}))
	}
	for text, want := range map[string]string{
		"a\nb-c":                `line 2: found "b-c", expected letters and _ alone`,
		"a\n\n502":              `line 3: found "502", expected letters and _ alone`,
		"\xff":                  `line 1: found "\xff", expected`,
		strings.Repeat("a", 65): "expected letters and _ alone, at most 64 bytes",
		strings.Join(most,
			"\n"): "line 1025: the words so far have more than 4096 bytes, the maximum",
		"":        "found no word, expected one or more",
		"# error": "found no word, expected one or more",
	} {
		_, err := TroubleWords(text)
		require.ErrorContains(t, err, want)
	}
	_, err = TroubleWords(strings.Join(most[:1024], "\n"))
	require.NoError(t, err)
}

func with(list string) *Meter {
	m := NewMeter()
	m.Trouble(list)
	return m
}

// If no line has a word of the list, lines are rated as without a list.
func TestWordsThatNoLineHasMoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, costs := drawText(t)
		m := with("denied")
		require.Equal(t, feed(NewMeter(), text, costs), feed(m, text, costs))
	})
	require.Equal(t, NewMeter().AppendState(nil), with("").AppendState(nil))
}

// troubled feeds a log that has two special lines, and returns these two lines. Each has an equally
// rare word, but only the word of the first line is a word of trouble. If every is set, all other
// lines also have a word of trouble.
func troubled(m *Meter, every bool) (trouble, other Line) {
	var got []Line
	for i := range 400 {
		line := fmt.Sprintf("GET /%d 200", i%7)
		switch {
		case i == 300:
			line = "user was denieD here"
		case i == 350:
			line = "user was greeted here"
		case every:
			line += " denied"
		}
		text := []byte(line + "\n")
		got = append(got, feed(m, text, make([]float64, len(text)))...)
	}
	return got[300], got[350]
}

func TestWordOfTroubleRaisesTheRankOfALine(t *testing.T) {
	plain, before := troubled(NewMeter(), false)
	raised, after := troubled(with("denied"), false)
	require.Less(t, raised.P, plain.P/2)
	require.InDelta(t, before.P, after.P, before.P/2, "the other line")
	plain, _ = troubled(NewMeter(), true)
	raised, _ = troubled(with("denied"), true)
	require.InDelta(t, plain.P, raised.P, plain.P/4, "a word that every line has says nothing")
}

func TestTroubleCountsDifferentWordsOfALine(t *testing.T) {
	for line, want := range map[string]int{
		"":                               0,
		"all is well":                    0,
		"ERROR: an error, Error":         1,
		"errors error":                   2,
		"error7error":                    1,
		"failed_error":                   1,
		"a failure, the error_code; fai": 2,
		"ОШИБКА \xff":                    1,
	} {
		r := trouble{}
		r.begin("error fail ошибка")
		require.Equal(t, want, r.count([]byte(line), new(scratch)), line)
	}
}

func TestStateKeepsWordsOfTrouble(t *testing.T) {
	m := with("denied user")
	troubled(m, false)
	text := []byte("GET /0 denied\nGET /1 denied user\n")
	feed(m, text[:5], make([]float64, 5))
	state := m.AppendState(nil)
	read, err := ReadState(state)
	require.NoError(t, err)
	require.Equal(t, "denied user", read.TroubleWords())
	require.Equal(t, state, read.AppendState(nil))
	clone, costs := m.Clone(), make([]float64, len(text)-5)
	want := feed(m, text[5:], costs)
	require.Equal(t, want, feed(read, text[5:], costs))
	require.Equal(t, want, feed(clone, text[5:], costs))
	require.Equal(t, m.AppendState(nil), read.AppendState(nil))

	spoiled := []byte(strings.Replace(string(state), "denied user", "Denied user", 1))
	_, err = ReadState(spoiled)
	require.ErrorIs(t, err, ErrState)
	m.rating.trouble.seen.N = -1
	_, err = ReadState(m.AppendState(nil))
	require.ErrorIs(t, err, ErrState)
}

func TestUsualTroubleIsNotStrange(t *testing.T) {
	for x, line := range []string{"ok", "an error", "error: it failed", "error: it failed, fatal"} {
		var of trouble
		of.begin("error fail fatal")
		for range 1000 {
			of.take([]byte(line), new(scratch))
		}
		require.InDelta(t, 0, of.take([]byte(line), new(scratch)), .01, "%d words of trouble", x)
	}
}
