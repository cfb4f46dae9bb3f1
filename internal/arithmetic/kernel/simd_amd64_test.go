//go:build !noasm

package kernel

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Numerics returns one name for AVX2 and AVX-512, so their results must be bit-identical.
func TestAVX512HasTheBitsOfAVX2(t *testing.T) {
	if machine < AVX512 {
		t.Skip("no AVX-512 here")
	}
	narrow, wide := NewExecIn(1, Arithmetic{Instructions: AVX2}),
		NewExecIn(1, Arithmetic{Instructions: AVX512})
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 40).Draw(t, "m"), rapid.IntRange(1, 80).Draw(t, "n"),
			rapid.IntRange(1, 300).Draw(t, "k")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, b := drawMatrix(t, rng, m, k, false), drawMatrix(t, rng, k, n,
			rapid.Bool().Draw(t, "add"))
		for form := range forms {
			requireSameBits(t, multiply(narrow, form, a, b).Data, multiply(wide, form, a, b).Data)
		}
	})
}
