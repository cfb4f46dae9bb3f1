package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

func FuzzProductSIMD(f *testing.F) {
	f.Add(uint8(6), uint8(16), uint16(256), uint8(0), uint8(0), uint64(1), true, true)
	f.Add(uint8(7), uint8(17), uint16(257), uint8(3), uint8(1), uint64(2), false, true)
	f.Add(uint8(13), uint8(33), uint16(7), uint8(1), uint8(2), uint64(3), true, false)
	f.Add(uint8(1), uint8(1), uint16(1), uint8(0), uint8(1), uint64(4), false, false)
	others(f)
	f.Fuzz(func(t *testing.T, m, n uint8, k uint16, gap, form uint8, seed uint64, acc, add bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		view := func(rows, cols int, add bool) Matrix {
			v := Matrix{Rows: rows, Cols: cols, Stride: cols + int(gap%20)}
			v.Data = fillView(rng, v, int(gap%3))
			if add {
				v.Add = fillView(rng, v, int(gap%5))
			}
			return v
		}
		a, b, c := view(int(m%40), int(k%600), false), view(int(k%600), int(n%60), add),
			view(int(m%40), int(n%60), false)
		product := forms[form%3]
		before := append([]float32(nil), c.Data...)
		for _, set := range available() {
			copy(c.Data, before)
			product.mul(NewExecIn(1, Arithmetic{Instructions: set}), c, a, b, acc)
			requireProduct(t, c, a, b, before, acc)
		}
	})
}

func FuzzExp(f *testing.F) {
	f.Add([]byte("any bytes make floats, eight or more of them are for the assembly"))
	f.Add(binary.LittleEndian.AppendUint32(make([]byte, 60), math.Float32bits(float32(math.NaN()))))
	assembly := others(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		src := make([]float32, len(data)/4)
		for i := range src {
			src[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		want, got := make([]float32, len(src)), make([]float32, len(src))
		Vectors{}.Exp(want, src)
		for _, e := range assembly {
			e.Exp(got, src)
			requireSameBits(t, want, got)
		}
	})
}
