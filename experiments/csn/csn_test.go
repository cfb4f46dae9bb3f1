package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/experiments/tape"
)

var small = rules{Least: 6, Most: 300, Known: 5, HeldOut: 100}

// Every adaptive method learns a new word of a known kind from one example. The accuracy is higher
// than that of guessing, which is 1/5.
func TestMethodsLearnNewWords(t *testing.T) {
	c := build(toy(4000, 1), nil, small, 1)
	b := budget{Steps: 200, Tests: 30, Rate: .003, Epochs: 3, Size: 16}
	embeddings, places := pretrain(c, b.Size, b.Epochs, 1)
	for _, m := range methods {
		least, most := .4, 1.
		switch m.Name {
		case "static":
			least, most = .1, .3
		case "adaFFN-direct":
			least = .3 // this method learns slowly
		case "LSTM-matching", "adaLSTM-gradient", "adaLSTM-direct":
			continue // TestRecurrentShiftsLearn trains an LSTM
		}
		r, err := run(m, c, embeddings, places, b, 1)
		require.NoError(t, err)
		t.Logf("%s %.3f %.3f", m.Name, r.Accuracy, r.Losses)
		for _, a := range r.Accuracy {
			require.True(t, least < a && a < most, "%s: found %.3f", m.Name, r.Accuracy)
		}
	}
}

// The training loss of an LSTM with conditional shifts falls. Two runs with the same seed have
// equal results.
func TestRecurrentShiftsLearn(t *testing.T) {
	c := build(toy(2000, 1), nil, small, 1)
	b := budget{Steps: 80, Tests: 5, Rate: .005, Epochs: 2, Size: 12}
	embeddings, places := pretrain(c, b.Size, b.Epochs, 1)
	chosen, err := choose("adaLSTM-gradient")
	require.NoError(t, err)
	r, err := run(chosen[0], c, embeddings, places, b, 1)
	require.NoError(t, err)
	t.Log(r)
	require.Less(t, r.Losses[9], 1.4) // the loss of a guess is ln 5 = 1.61

	b.Steps, b.Tests = 10, 1
	once, err := run(chosen[0], c, embeddings, places, b, 1)
	require.NoError(t, err)
	again, err := run(chosen[0], c, embeddings, places, b, 1)
	require.NoError(t, err)
	require.Equal(t, once, again)
}

// All gradients agree with finite differences. The conditioning information is constant, as in
// training.
func TestShiftsMatchFiniteDifferences(t *testing.T) {
	c := build(toy(2000, 1), nil, small, 1)
	embeddings, places := pretrain(c, 3, 1, 1)
	for _, m := range []struct{ bag, direct, recurrent bool }{
		{true, false, false}, {true, true, false}, {false, false, true}, {false, true, true},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		e := newEncoder(embeddings, places, m.bag, 3, r)
		model := newShifted(e, ways, m.direct, m.recurrent, r)
		k := c.Train.draw(ways, 1, 1, r)
		information := model.describe(k)
		loss := func() (*tape.Tape, *tape.Var) {
			var t tape.Tape
			return &t, t.CrossEntropy(model.predict(&t, k, information), k.Answer, nil)
		}
		tp, y := loss()
		tp.Backward(y)
		for p, v := range model.params() {
			for i := 0; i < len(v.Value); i += 1 + len(v.Value)/7 {
				want := tape.Slope(v, i, loss)
				require.InDelta(t, want, v.Grad[i], 1e-5*(1+math.Abs(want)), "%v %d %d", m, p, i)
			}
		}
	}
}

// feedback implements equation 7 of the CSN paper for a hidden layer, and outputFeedback for the
// output layer.
func TestDirectFeedback(t *testing.T) {
	logits := tape.New(1, 2) // zero logits: both probabilities are .5
	copy(logits.Grad, []float64{.5, -.5})
	require.Equal(t, []float64{.5, -.5, .1, -.1}, feedback([]float64{1, .2}, logits).Value)
	require.Equal(t, []float64{.125, .125, -.125, -.125}, outputFeedback(logits).Value)
}

// No training sentence contains a test word. In every test window, the missing word is a test word.
func TestTestWordsAreNew(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for range 8 {
		text.WriteString("The zebra saw a red bird here. My Okapi saw a red house there! ")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text.String()), 0o600))
	sentences, err := read(dir, 1<<20)
	require.NoError(t, err)
	require.Len(t, sentences, 16)
	set := rules{Least: 4, Most: 8, Known: 2, HeldOut: 1}
	require.Equal(t, []string{"bird", "here", "house", "there", "zebra"}, set.candidates(sentences))

	c := build(sentences, nil, set, 1)
	require.Len(t, c.Test, 1)
	require.Len(t, c.Test[0], 8)
	require.Len(t, c.Sentences, 8)
	require.Equal(t, blank, c.Test[0][0][reach])
	_, err = read(t.TempDir(), 1)
	require.ErrorContains(t, err, "found no *.txt file")
}
