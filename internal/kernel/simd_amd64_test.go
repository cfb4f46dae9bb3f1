//go:build !noasm

package kernel

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Numerics gives both the same name.
func TestAVX512HasTheBitsOfAVX2(t *testing.T) {
	if !haveAVX512 {
		t.Skip("no AVX-512 here")
	}
	defer setSIMD(true)
	x := NewExec(1)
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 40).Draw(t, "m"), rapid.IntRange(1, 80).Draw(t, "n"), rapid.IntRange(1, 300).Draw(t, "k")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, b := drawMatrix(t, rng, m, k, false), drawMatrix(t, rng, k, n, rapid.Bool().Draw(t, "add"))
		for form := range forms {
			micro = &avx2
			want := multiply(x, form, a, b)
			micro = &avx512
			requireSameBits(t, want.Data, multiply(x, form, a, b).Data)
		}
	})
}

// Machines with AVX-512 also run the narrower tiles' tests.
func TestAVX2WhereThereIsAVX512(t *testing.T) {
	if !haveAVX512 {
		t.Skip("tested by the others")
	}
	defer setSIMD(true)
	haveAVX512 = false
	defer func() { haveAVX512 = true }()
	t.Run("products", TestProductsAgreeWithFloat64)
	t.Run("parts", TestPartsOfAProductHaveTheBitsOfTheWhole)
}
