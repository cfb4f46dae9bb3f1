package main

import (
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

func TestSuggestPrintsNoControlCharacters(t *testing.T) {
	var out strings.Builder
	printSuggestions(&out, []client.SuggestedText{
		{Probability: 0.5, Text: "é \"\t\x1b[2J\n"}, {Probability: 0.25, Text: " größer"},
	})
	require.Equal(t, "0.50  \"é \\\"\\t\\x1b[2J\\n\"\n0.25  \" größer\"\n", out.String())
}
