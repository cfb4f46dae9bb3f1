package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScoreTextsIsBoundedAndFailsInOrder(t *testing.T) {
	g := newRig(t, Options{})
	many := `{"texts":["a"` + strings.Repeat(`,"a"`, 1023) + `]}`
	res := g.json("/v1/score", many)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	require.Equal(t, 1024, strings.Count(string(text), `{"type":"text","index":`))
	for body, status := range map[string]int{
		strings.Replace(many, `"a"`, `"a","a"`, 1): 422, `{"texts":[]}`: 422, `{}`: 422,
		`{"texts":["a"],"settings":{"method":"magic"}}`: 422, `{"texts":[1]}`: 422,
	} {
		require.Equal(t, status, g.json("/v1/score", body).StatusCode, "%.80s", body)
	}
	g.fake.fail = errors.New("the disk is gone")
	// The fake manager fails only after a chunk, and the empty text has none.
	res = g.json("/v1/score", `{"texts":["","b"]}`)
	text, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `{"type":"text","index":0`)
	require.Contains(t, lines[1], `{"type":"error"`)
}
