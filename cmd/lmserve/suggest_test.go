package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

func TestSuggestRoundsAShortTimeUp(t *testing.T) {
	for within, want := range map[time.Duration]int{
		0: 0, 1: 1, 500 * time.Microsecond: 1, 20 * time.Millisecond: 20, -time.Second: -1000,
	} {
		k := suggesting{within: within}
		require.Equal(t, want, *k.request().WithinMs, within)
	}
}

func TestSuggestRefusesFlagsByTheirNames(t *testing.T) {
	for found, flags := range map[string][]string{
		`--candidates is 0, expected 1 to 20`:       {"-n", "0"},
		`--within is 20s, expected 0s to 10s`:       {"--within", "20s"},
		`--within is -1s, expected 0s to 10s`:       {"--within", "-1s"},
		`--min-probability is NaN, expected 0 to 1`: {"--min-probability", "NaN"},
		`--typed is "caf\xc3", expected UTF-8`:      {"--typed", "caf\xc3"},
		`--min-probability is 1.5, expected 0 to 1`: {"--min-probability", "1.5"},
	} {
		_, stderr, code := lmserve("", append([]string{"suggest"}, flags...)...)
		require.Equal(t, 2, code, flags)
		require.Equal(t, "lmserve: "+found+"\n", stderr)
	}
}

func TestSuggestPrintsNoControlCharacters(t *testing.T) {
	var out strings.Builder
	printSuggestions(&out, []client.SuggestedText{
		{Probability: 0.5, Text: "é \"\t\x1b[2J\n"}, {Probability: 0.25, Text: " größer"},
	})
	require.Equal(t, "0.50  \"é \\\"\\t\\x1b[2J\\n\"\n0.25  \" größer\"\n", out.String())
}

// --seed applies to new sessions only. Its default is 0. An existing session keeps its own seed.
// The command score refuses an existing session with another seed.
func TestNewSessionsHaveTheSeedOfTheFlag(t *testing.T) {
	url, stop := serving(t, "--model", smallModel(t))
	defer stop()
	seedOf := func(name string, command ...string) any {
		must(t, "", append(command, "--server", url, "--session", name, "--chunk", "8")...)
		_, session := send(t, http.MethodGet, url+"/v1/sessions/"+name, "", "")
		return session["seed"]
	}
	complete := []string{"complete", "--max-tokens", "1", "--seed"}
	require.EqualValues(t, 4, seedOf("suggested", "suggest", "--seed", "4"))
	require.EqualValues(t, 4, seedOf("suggested", "suggest"))
	require.EqualValues(t, 5, seedOf("completed", append(complete, "5")...))
	require.EqualValues(t, 5, seedOf("completed", append(complete, "6")...))
	require.EqualValues(t, 0, seedOf("default", "suggest"))
	require.EqualValues(t, 0, seedOf("scored", "score"))

	_, session := send(t, http.MethodGet, url+"/v1/sessions/completed", "", "")
	for _, name := range []string{"completed", session["id"].(string)} {
		score := []string{"score", "--server", url, "--session", name, "--seed"}
		must(t, "", append(score, "5")...)
		_, stderr, code := lmserve("", append(score, "6")...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--seed is 6, expected 5")
	}

	_, stderr, code := lmserve("", "suggest", "--server", url, "--theta", "0.5")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--theta has no effect with method ")

	t.Setenv("LMSERVE_SEED", "7")
	require.EqualValues(t, 5, seedOf("completed", "score"), "a configured seed is no requirement")
	require.EqualValues(t, 7, seedOf("configured", "score"))
}
