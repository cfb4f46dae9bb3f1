package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testHead(t testing.TB) head {
	set, err := effective(testModel(t), Settings{"baseline": true})
	require.NoError(t, err)
	set.Seed = SeedMax
	return head{Version: headVersion, ID: "0198", Complete: true, Owner: "k",
		Created: time.Unix(1, 2).UTC(), Model: modelName{"test", "abc"}, Settings: set,
		Labels: map[string]string{"a": "<é>\x00", "b": ""}, TTL: time.Hour + 1,
		History: HistoryTail, Parent: &Parent{"x", 7},
		Numerics: []numerics{{0, "amd64"}, {9, "arm64"}}, LinesFrom: ptr(int64(5)),
		TroubleWords: "error fail",
		Records:      &recordRule{8, "^a"}, ByLine: true}
}

func TestHeadIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := testHead(t)
		want.Owner = rapid.String().Draw(rt, "owner")
		want.TTL = time.Duration(rapid.Int64Range(0, int64(TTLMax)).Draw(rt, "ttl"))
		want.Created = time.Unix(rapid.Int64Range(0, 1<<33).Draw(rt, "s"),
			rapid.Int64Range(0, 999_999_999).Draw(rt, "ns")).UTC()
		want.Settings.Adapt.P = rapid.Float64Range(0, 1).Draw(rt, "p")
		want.Settings.Adapt.Beta1 = rapid.Float32Range(0, 1000).Draw(rt, "beta1")
		got, err := decodeHead("0198", want.encode())
		require.NoError(rt, err)
		require.Equal(rt, want, got)
	})
}

func TestChangedHeadIsRefused(t *testing.T) {
	h := testHead(t)
	text := string(h.encode())
	for _, c := range []struct{ from, to, want string }{
		{`"version":1`, `"version":2`, "version is 2, expected 1"},
		{`"owner"`, `"master"`, `found "master`},
		{`"complete":true,`, ``, "expected"},
		{`"complete":true`, `"complete": true`, "expected"},
		{`"complete":true`, `"complete":true,"complete":true`, "expected"},
		{`"0198"`, `"0199"`, `id is "0199", expected "0198"`},
		{`"tail"`, `"none"`, `history is "none", expected full or tail`},
		{`"from":9`, `"from":0`, "numerics[1].from is 0"},
		{`"offset":7`, `"offset":-7`, "parent.offset is -7"},
		{`"chunk":16`, `"chunk":0`, "settings.chunk is 0"},
		{`"method":"sparse-meta"`, `"method":"magic"`, `settings.method is "magic"`},
		{`"lines_from":5`, `"lines_from":-5`, "lines_from is -5"},
		{`"lines_from":5,"records":{"from":8,"start":"^a"},`, ``, "by_line is true, expected " +
			"false without lines_from"},
		{`"lines_from":5,`, ``, "records.from is 8, expected at least the value of lines_from"},
		{`{"from":8`, `{"from":4`, "records.from is 4, expected at least the value of lines_from"},
		{`"^a"`, `"(a"`, "records.start is \"(a\", expected a valid regular expression (RE2): " +
			"missing closing ): `(a`"},
		{`"by_line":true`, `"by_line":false`, "expected"},
		{`"error fail"`, `"Error fail"`,
			`trouble_words is "Error fail", expected lower-case words`},
		{`"start":"^a"},"by_line":true`, `"start":"^a"},"by_line":true,"x":1`, "expected"},
		{`"method":"sparse-meta"`, `"method":"cache"`,
			"by_line is true, expected false with the method cache"},
		{`{"version"`, `[{"version"`, "head: "},
	} {
		require.Contains(t, text, c.from)
		_, err := decodeHead("0198", []byte(strings.Replace(text, c.from, c.to, 1)))
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzHead(f *testing.F) {
	h := testHead(f)
	f.Add(string(h.encode()))
	h = head{Version: headVersion}
	f.Add(string(h.encode()))
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := decodeHead("0198", []byte(text)); err == nil {
			require.Equal(t, text, string(h.encode()))
		}
	})
}
