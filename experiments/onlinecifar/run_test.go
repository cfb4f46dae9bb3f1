package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The results do not depend on the number of concurrent runs.
func TestSmallRunLearns(t *testing.T) {
	o := options{narrow: 16, rounds: 60, every: 30, devTasks: 1, tasks: 2, rate: 3e-3, out: .1,
		metaRate: 3e-3, log: func(string, ...any) {}}
	s := generate(1)
	rows, err := runAll(o, s, "", 1, 1, 2)
	require.NoError(t, err)
	for _, r := range rows {
		t.Log(r)
		require.Greater(t, r.Scores[3].Accuracy, .4, r.Method) // the accuracy of a guess is .2
		require.Greater(t, r.Scores[3].Accuracy, r.Scores[0].Accuracy, r.Method)
	}
	require.InDelta(t, .474, rows[0].Dev, .05)
	again, err := runAll(o, s, "meta", 1, 1, 1)
	require.NoError(t, err)
	require.Equal(t, rows[:1], again)
	require.NoError(t, figure(t.TempDir(), rows))
	require.Contains(t, table("generated images", o, rows), "| "+nameMeta+" | ")
}

func TestForkLeavesTrainingAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m, err := newMeta(newNetwork(16, labelCount, r), paper(.1, 3e-3), 1e-3, false, 1)
	require.NoError(t, err)
	defer m.close()
	s := generate(1)
	now := (&task{classes: [labelCount]int{0, 1, 2, 3, 4}}).exam(s, 6)
	for range 4 {
		_, err := m.learn(now)
		require.NoError(t, err)
	}
	kept := append([]float64(nil), m.net.convs[0].Value...)
	f, err := m.fork(1)
	require.NoError(t, err)
	defer f.close()
	require.NotEqual(t, kept, f.net.convs[0].Value, "the fourth round wrote fast weights")
	slow := append([]float64(nil), f.net.convs[0].Value...)
	head := append([]float64(nil), f.net.head.Value...)
	_, err = f.learn(now)
	require.NoError(t, err)
	require.NotEqual(t, slow, f.net.convs[0].Value)
	require.Equal(t, head, f.net.head.Value, "the softmax layer has no fast weights")
	require.Equal(t, kept, m.net.convs[0].Value)
}

func TestOfflineBaselineForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	net := newNetwork(16, labelCount, r)
	now := (&task{classes: [labelCount]int{0, 1, 2, 3, 4}}).exam(generate(1), 6)
	for _, offline := range []bool{true, false} {
		m := newTuner(net, 1e-3, false, offline)
		m.task()
		_, err := m.learn(now)
		require.NoError(t, err)
		m.task()
		if offline {
			require.Equal(t, net.head.Value, m.net.head.Value)
		} else {
			require.NotEqual(t, net.head.Value, m.net.head.Value)
		}
	}
}
