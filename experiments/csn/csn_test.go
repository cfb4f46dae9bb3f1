package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A new word of a known kind is told from others by one example.
func TestMethodsLearnNewWords(t *testing.T) {
	c := build(toy(4000, 1), nil, rules{Least: 6, Most: 300, Known: 5, HeldOut: 100}, 1)
	b := budget{Steps: 300, Tests: 40, Rate: .003, Epochs: 3, Size: 16}
	embeddings, places := pretrain(c, b.Size, b.Epochs, 1)
	for _, m := range methods {
		r, err := run(m, c, embeddings, places, b, 1)
		require.NoError(t, err)
		t.Logf("%s %.3f %.3f", m.Name, r.Accuracy, r.Losses)
	}
}
