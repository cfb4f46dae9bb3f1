package strictjson

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

var small = Bounds{Depth: 3, Members: 4, Tokens: 20, Bytes: 8}

// spaces is a reader of endless white space.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, "  "), nil }

func TestReadBoundedStopsWhereABoundIsPassed(t *testing.T) {
	for text, want := range map[string]struct{ path, says string }{
		`[1,2,3,4,5`:                   {"", "more than 4 values"},
		`{"s":{"g":[1,2,3,4,5`:         {"s.g", "more than 4 values"},
		`{"a":1,"b":2,"c":3,"d":4,"e"`: {"", "more than 4 values"},
		`{"x":[[[`: {"x[0][0]", "more than 3 objects and arrays " +
			"within each other"},
		`[[[1,1,1,1],[1,1,1,1],[1,1,1,1],[1,1,`: {"[0][3]", "more than 20 values, names and " +
			"brackets"},
		`{"a":{"123456789":`: {"a", "a name of more than 8 bytes"},
		`{"a":123456789,`:    {"a", "a number of more than 8 digits"},
	} {
		_, err := ReadBounded(io.MultiReader(strings.NewReader(text), spaces{}), small)
		var e *Error
		require.ErrorAs(t, err, &e, text)
		require.ErrorIs(t, err, ErrBounds, text)
		require.Equal(t, want.path, e.Path, text)
		require.Contains(t, e.Found, want.says, text)
	}
}

func TestReadBoundedIsCheckWithinBounds(t *testing.T) {
	for _, text := range []string{``, " \n", `1`, ` {"a":[1,2,3,4]} `, `{"a":"` +
		strings.Repeat("long ", 1<<12) + `"}`, `"12345678901234567890"`} {
		got, err := ReadBounded(iotest.OneByteReader(strings.NewReader(text)), small)
		require.NoError(t, err, text)
		require.Equal(t, text, string(got))
	}
	for _, text := range []string{`{`, `{"a":1}{}`, `{"a":1,"a":2}`, "{\"a\":\"\xe9\"}",
		`{"a":"\ud83d"}`, `[01]`, `{"a":1} x`, `x` + strings.Repeat("y", 1<<12)} {
		got, err := ReadBounded(strings.NewReader(text), small)
		require.Equal(t, Check([]byte(text)), err, text)
		require.Equal(t, text, string(got))
	}
	cut := errors.New("cut off")
	_, err := ReadBounded(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(cut)), small)
	require.Equal(t, cut, err)
}
