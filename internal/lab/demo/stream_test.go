package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

func TestRowsAreWholeLinesThatMakeUpTheText(t *testing.T) {
	for _, text := range []string{
		"", "one line\n", incident, novel, strings.Repeat("x", 3*rowBytes),
		strings.Repeat("x", rowBytes-1) + "\n" + strings.Repeat("y", rowBytes) + "\nend",
	} {
		rows := slices.Collect((&stream{text: text}).rows())
		require.Equal(t, text, strings.Join(rows, ""))
		for _, row := range rows[:max(0, len(rows)-1)] {
			require.GreaterOrEqual(t, len(row), rowBytes)
			require.True(t, strings.HasSuffix(row, "\n"))
		}
	}
}

// The demo's table shows the bits of the static model with a companion, from the shadow session.
func TestShadowHasCompanion(t *testing.T) {
	var asked map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			require.NoError(t, json.NewDecoder(r.Body).Decode(&asked))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"shadow"}`)
	}))
	defer server.Close()
	c, err := client.New(server.URL)
	require.NoError(t, err)
	s := &stream{name: "log"}
	require.NoError(t, s.prepare(t.Context(), c))
	require.Equal(t, "shadow", string(s.shadow))
	require.Equal(t, map[string]any{"method": "static", "companion": true}, asked["settings"])
}

func TestExcerptBeginsWithAWord(t *testing.T) {
	line := "2026-11-22T14:39:07.676Z\tERROR\t" + strings.Repeat("a word ", 20) + "strange end"
	for _, c := range []struct{ part, begins string }{
		{"ERROR", "2026-11-22T"}, {"2026", "2026-11-22T"}, {"strange", "word a word"},
		{"end", "word a word strange end"},
	} {
		from := strings.Index(line, c.part)
		got := string(excerpt([]byte(line), from, from+len(c.part)))
		require.True(t, strings.HasPrefix(got, c.begins), got)
		require.Contains(t, got, c.part)
	}
}
