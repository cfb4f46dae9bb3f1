package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each network learns to copy one or two vectors. An untrained network has a mean loss of 9 bits
// per sequence.
func TestNetworksLearnShortCopy(t *testing.T) {
	k := tasks(1)[0]
	k.max, k.sequences = 2, 1200
	for _, m := range methods(1)[:4] {
		r, err := train(job{k, m, 1, 1})
		require.NoError(t, err)
		require.Greater(t, r.curve[0], 7., m.name)
		require.Less(t, r.curve[windows-1], 5., m.name)
		t.Log(m.name, r.curve[windows-1], percents(r.lengths))
	}
}

func TestFastWeightsLearnCopy(t *testing.T) {
	k := tasks(1)[0]
	k.sequences = 800
	r, err := train(job{k, methods(1)[4], 1, 20})
	require.NoError(t, err)
	require.Less(t, r.curve[windows-1], 3., "of 27 bits")
	require.Less(t, r.lengths[0].wrong(), 4.)
	require.Greater(t, r.lengths[2].wrong(), 5., "32 vectors are too many")
	t.Log(r.curve[windows-1], percents(r.lengths))
}

func TestTablesDoNotDependOnProcessors(t *testing.T) {
	o := options{seed: 1, seeds: 1, vectors: 2, p: 1, sequences: windows, tests: 1}
	var one, two bytes.Buffer
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	require.NoError(t, run(o, &one, io.Discard))
	runtime.GOMAXPROCS(2)
	require.NoError(t, run(o, &two, io.Discard))
	require.Equal(t, one.String(), two.String())
	require.Contains(t, one.String(), "| NTM | 26122 |")
}

func TestRunDrawsFigures(t *testing.T) {
	o := options{seed: 1, seeds: 1, vectors: 1, p: 1, sequences: windows, tests: 1,
		out: t.TempDir()}
	require.NoError(t, run(o, io.Discard, io.Discard))
	for _, name := range []string{"memory-copy.svg", "memory-recall.svg"} {
		data, err := os.ReadFile(filepath.Join(o.out, name))
		require.NoError(t, err)
		require.Contains(t, string(data), "bits of error a sequence")
	}
	o.seeds = 0
	require.ErrorContains(t, run(o, io.Discard, io.Discard), "want at least")
}

func TestRecallAsksForSuccessor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		s := drawRecall(r, 4, 2)
		require.Len(t, s.inputs, 4*2+2+2)
		require.Len(t, s.keys, 3)
		query := append(s.inputs[8][:bits:bits], s.inputs[9][:bits]...)
		found := false
		for i, key := range s.keys {
			if slices.Equal(key, signs(query)) {
				require.Equal(t, s.values[i], flat(s.targets))
				require.Equal(t, s.queries[0], key)
				found = true
			}
		}
		require.True(t, found)
	}
}
