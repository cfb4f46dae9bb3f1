package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCheckTellsWhereAndWhat(t *testing.T) {
	for text, want := range map[string]struct {
		kind   error
		offset int
		path   string
		says   string
	}{
		``: {ErrSyntax, 0, "",
			"unexpected end of JSON input"},
		" \n": {ErrSyntax, 2, "",
			"unexpected end of JSON input"},
		`x`: {ErrSyntax, 0, "",
			"invalid character 'x' looking for beginning of value"},
		`{`:         {ErrSyntax, 1, "", "expected a string"},
		`{"a":{},}`: {ErrSyntax, 8, "a", "expected a string"},
		`{"a":1 "b":2}`: {ErrSyntax, 7, "a",
			"invalid character '\"' after object key:value pair (expected ',' or '}'"},
		`{"a" 1}`:  {ErrSyntax, 5, "a", "expected ':'"},
		`{"a":}`:   {ErrSyntax, 5, "a", "expected a value"},
		`{"a":1]`:  {ErrSyntax, 6, "a", "expected ',' or '}'"},
		`{1:2}`:    {ErrSyntax, 1, "", "expected a string"},
		`[1, 2, ]`: {ErrSyntax, 7, "[1]", "expected a value"},
		`[1 2]`:    {ErrSyntax, 3, "[0]", "expected ',' or ']'"},
		`[01]`:     {ErrSyntax, 2, "[0]", "after array element"},
		`[1.]`: {ErrSyntax, 3, "",
			"after decimal point in numeric literal"},
		`{"a":[tru]}`: {ErrSyntax, 9, "a",
			"in literal true (expecting 'e')"},
		`"abc`: {ErrSyntax, 4, "", `expected '"'`},
		`"\x"`: {ErrSyntax, 1, "",
			"expected an escape sequence of JSON"},
		`"\u12"`: {ErrSyntax, 1, "",
			`expected a character as \uXXXX`},
		`"\u12`: {ErrSyntax, 1, "",
			`expected a character as \uXXXX`},
		"\"a\nb\"": {ErrSyntax, 2, "",
			"expected control characters escaped"},
		`{}{}`: {ErrSyntax, 2, "",
			"invalid character '{' after top-level value (expected nothing more"},
		`1 x`: {ErrSyntax, 2, "",
			"invalid character 'x' after top-level value"},
		"{\"a\":\"\xe9\"": {ErrUTF8, 6, "",
			`found byte "\xe9" (expected UTF-8`},
		"\"caf\xc3":                       {ErrUTF8, 4, "", "expected UTF-8"},
		`{"a":"\ud83d"}`:                  {ErrSurrogate, 6, "a", `found "\\ud83d`},
		`["\\ud83d \ud83d\ude00 \ude00"]`: {ErrSurrogate, 23, "", `found "\\ude00`},
		`{"a":"\ud83d\ud83d\ude00"}`:      {ErrSurrogate, 6, "a", "two that pair"},
		`{"a":"\ud83d`:                    {ErrSurrogate, 6, "a", "two that pair"},
		`{"a":1,"b":{"c":[{"d":1,"\u0064":2}]}}`: {ErrDuplicate, 24, "b.c[0].d",
			`found key "d" again (expected every key once; byte 24, b.c[0].d)`},
		`{"é":{"a.b":{"":[0,{"x":1,"x":2}]}}}`: {ErrDuplicate, 27, `"é"."a.b".""[1].x`, "again"},
		`{"` + strings.Repeat("n", 1000) + `":x`: {ErrSyntax, 1004, `"` + strings.Repeat("n", 80) +
			`"…`, "looking for beginning of value"},
		`{"n` + strings.Repeat("é", 50) + `":x`: {ErrSyntax, 105, `"n` + strings.Repeat("é", 39) +
			`"…`, "looking for beginning of value"},
	} {
		err := Check([]byte(text))
		var e *Error
		require.ErrorAs(t, err, &e, text)
		require.ErrorIs(t, err, want.kind, text)
		require.Equal(t, want.offset, e.Offset, text)
		require.Equal(t, want.path, e.Path, text)
		require.ErrorContains(t, err, want.says, text)
		require.ErrorContains(t, err, fmt.Sprint("byte ", want.offset), text)
	}
}

func TestSoundTextsPass(t *testing.T) {
	for _, text := range []string{`{}`, ` null `, "\t[1, -0.5e+3,\r\n true]",
		`"\ud83d\ude00 \\ud83d é"`, `{"a":{"x":1},"b":{"x":1}}`, `{"a":1,"A":2}`,
		`123456789012345678901234567890`, strings.Repeat("[", 10000) + strings.Repeat("]", 10000)} {
		require.NoError(t, Check([]byte(text)))
		require.True(t, json.Valid([]byte(text)))
	}
	deep := []byte(strings.Repeat("[", 10001) + strings.Repeat("]", 10001))
	require.ErrorContains(t, Check(deep), "exceeded max depth")
	require.False(t, json.Valid(deep))
}

type inner struct {
	X float32 `json:"x"`
	U uint16
}

type outer struct {
	inner
	A int `json:"a"`
	L []inner
	B bool
	S string
	M map[string]int
	R json.RawMessage `json:",omitempty"`
}

func TestUnmarshalTellsWhereAndWhat(t *testing.T) {
	for text, want := range map[string]struct {
		kind   error
		offset int
		path   string
		says   string
	}{
		`{"a":"x"}`: {ErrValue, 5, "a", "json: found a string (expected an " +
			"integer of 64 bits; byte 5, a)"},
		`{"a":1e2}`:                   {ErrValue, 5, "a", "found 1e2"},
		`{"a": 99999999999999999999}`: {ErrValue, 6, "a", "found 99999999999999999999"},
		`{"x":1e99}`:                  {ErrValue, 5, "x", "expected a number of 32 bits"},
		`{"U":-1}`: {ErrValue, 5, "U", "expected an integer of 16 bits " +
			"without a sign"},
		`{"L":[{"x":1},{"y":2}]}`: {ErrUnknown, 15, "L[1].y",
			`json: unknown field "y" (expected one of ["x" "U"]; byte 15, L[1].y)`},
		`{"A":1}`: {ErrUnknown, 1, "A",
			`json: unknown field "A" (expected one of ["x" "U" "a" "L" "B" "S" "M" "R"]`},
		`{"inner":{}}`:                {ErrUnknown, 1, "inner", "unknown field"},
		`{"a":1,"b":2}`:               {ErrUnknown, 7, "b", `unknown field "b"`},
		`{"a":1,"a":1}`:               {ErrDuplicate, 7, "a", "again"},
		`{"R":{"z":[{"q":1,"q":2}]}}`: {ErrDuplicate, 18, "R.z[0].q", "again"},
		`{"M":{"a.b":true}}`:          {ErrValue, 12, `M."a.b"`, "found true"},
		`{"B":1}`: {ErrValue, 5, "B",
			"found a number (expected true or false"},
		`{"S":[]}`: {ErrValue, 5, "S", "found an array (expected a string"},
		`{"L":{}}`: {ErrValue, 5, "L", "found an object (expected an array"},
		`[]`: {ErrValue, 0, "", "found an array (expected an object; " +
			"byte 0)"},
		`{"a":1} x`: {ErrSyntax, 8, "", "invalid character 'x' after " +
			"top-level value"},
		`{"a":1}{`:                      {ErrSyntax, 7, "", "expected nothing more"},
		`{"a":`:                         {ErrSyntax, 5, "a", "unexpected EOF (expected a value"},
		"{\"S\":\"\xff\"}":              {ErrUTF8, 6, "", "expected UTF-8"},
		`{"S":"\udc00"}`:                {ErrSurrogate, 6, "S", "two that pair"},
		``:                              {ErrSyntax, 0, "", "unexpected EOF (expected a value"},
		`{"M":{"k":1,"\u006b":2},"x":}`: {ErrDuplicate, 12, "M.k", "again"},
	} {
		var v outer
		err := Unmarshal([]byte(text), &v)
		var e *Error
		require.ErrorAs(t, err, &e, text)
		require.ErrorIs(t, err, want.kind, text)
		require.Equal(t, want.offset, e.Offset, text)
		require.Equal(t, want.path, e.Path, text)
		require.ErrorContains(t, err, want.says, text)
	}
}

func TestUnmarshalUndoesMarshal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := outer{inner: inner{rapid.Float32().Draw(t, "x"), rapid.Uint16().Draw(t, "u")},
			A: rapid.Int().Draw(t, "a"), B: rapid.Bool().Draw(t, "b"),
			S: strings.ToValidUTF8(rapid.String().Draw(t, "s"), ""),
			M: rapid.MapOf(rapid.StringMatching(`[a-zé\\"]*`), rapid.Int()).Draw(t, "m")}
		for range rapid.IntRange(0, 3).Draw(t, "l") {
			v.L = append(v.L, inner{X: rapid.Float32().Draw(t, "lx")})
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		var got outer
		require.NoError(t, Unmarshal(text, &got))
		require.Equal(t, len(v.L), len(got.L))
		again, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
	})
}

func seed(f *testing.F) {
	for _, text := range []string{``, `{"a":1,"L":[{"x":1e3},{"U":7}],"M":{"k":-0}}`,
		`{"S":"\ud83d\ude00","B":null}`, `{"R":{"a":[1,{"a":2}]}} `,
		`{"a":1}{}`, `{"S":"\ud800"}`, "{\"S\":\"\xff\"}", `{"A":1,"a":2}`, `{"x":1e39}`, `[1,]`,
		`{"a":1,}`, `"\u12`, `"a`, `{"a" :tru`, `9007199254740993`} {
		f.Add([]byte(text))
	}
}

// requireLocated checks that err is an *Error whose offset lies in the text.
func requireLocated(t *testing.T, text []byte, err error) *Error {
	var e *Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Offset >= 0 && e.Offset <= len(text), "byte %d of %d", e.Offset, len(text))
	require.NotEmpty(t, e.Found)
	require.NotEmpty(t, e.Want)
	require.NotEmpty(t, e.Error())
	return e
}

// FuzzCheck compares Check with encoding/json. Every text that Check accepts must be JSON for
// encoding/json. A text that Check refuses must not be JSON, or must have one of the three faults
// that encoding/json ignores.
func FuzzCheck(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Check(text)
		if err == nil {
			require.True(t, json.Valid(text))
			require.True(t, utf8.Valid(text))
			return
		}
		e := requireLocated(t, text, err)
		switch e.Kind {
		case ErrSyntax:
			require.False(t, json.Valid(text))
			require.ErrorAs(t, err, new(*json.SyntaxError))
		case ErrUTF8:
			require.False(t, utf8.Valid(text))
			require.True(t, utf8.Valid(text[:e.Offset]))
		case ErrSurrogate:
			require.Equal(t, `\u`, string(text[e.Offset:e.Offset+2]))
		default:
			require.Equal(t, ErrDuplicate, e.Kind)
			require.Equal(t, byte('"'), text[e.Offset])
		}
	})
}

// Check refuses a string if and only if the string has lone surrogates, which encoding/json
// replaces.
func FuzzLoneSurrogate(f *testing.F) {
	for _, seed := range []string{`a\ud83d\ude00`, `\ud83d`, `\\ud83d`, `\ude00\ud83d`,
		`\u00e9\uD83D\u0041`, `\"\\\/\b`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := []byte(`"` + s + `"`)
		var text string
		if !utf8.Valid(raw) || json.Unmarshal(raw, &text) != nil {
			return
		}
		if strings.Contains(s, "\uFFFD") || strings.Contains(strings.ToLower(s), `\ufffd`) {
			return // The check below would mistake this character for a replaced surrogate.
		}
		replaced := strings.ContainsRune(text, utf8.RuneError)
		err := Check(raw)
		if replaced != (err != nil) {
			t.Fatalf("%s: %v, but encoding/json makes it %q", raw, err, text)
		}
		if err != nil {
			require.ErrorIs(t, err, ErrSurrogate)
			e := requireLocated(t, raw, err)
			u, bad := strconv.ParseUint(string(raw[e.Offset+2:e.Offset+6]), 16, 16)
			require.True(t, bad == nil && utf16.IsSurrogate(rune(u)))
		}
	})
}

// FuzzUnmarshal compares Unmarshal with encoding/json, which is set to refuse unknown fields. For a
// text that Unmarshal accepts, both must give the same value. If only Unmarshal refuses a text,
// Check must refuse the text, too, or a name must differ in case.
func FuzzUnmarshal(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want outer
		err := Unmarshal(text, &got)
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.DisallowUnknownFields()
		old := d.Decode(&want)
		if err == nil {
			require.NoError(t, old)
			a, err := json.Marshal(got)
			require.NoError(t, err)
			b, err := json.Marshal(want)
			require.NoError(t, err)
			// encoding/json distinguishes null from an empty array or map; its second version does
			// not.
			same := strings.NewReplacer(`"L":[]`, `"L":null`, `"M":{}`, `"M":null`)
			require.Equal(t, same.Replace(string(b)), same.Replace(string(a)))
			return
		}
		e := requireLocated(t, text, err)
		if old == nil && Check(text) == nil {
			require.Equal(t, ErrUnknown, e.Kind, "%s: %v", text, err)
			require.True(t, errors.Is(err, ErrUnknown))
		}
	})
}
