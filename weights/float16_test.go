package weights

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

type half struct {
	name     string
	bits     func(float32) uint16
	value    func(uint16) float32
	infinity uint16
}

var halves = []half{
	{"F16", float16Bits, float16Value, 0x7c00},
	{"BF16", bfloat16Bits, bfloat16Value, 0x7f80},
}

func TestEvery16BitPatternSurvivesFloat32(t *testing.T) {
	for _, h := range halves {
		for p := range 1 << 16 {
			require.Equal(t, uint16(p), h.bits(h.value(uint16(p))), "%s %#04x", h.name, p)
		}
	}
}

func TestKnown16BitValues(t *testing.T) {
	for p, want := range map[uint16]float32{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x3555: 0x1.554p-2, 0x7bff: 65504, 0x0400: 0x1p-14,
		0x03ff: 0x1.ff8p-15, 0x0001: 0x1p-24,
	} {
		require.Equal(t, want, float16Value(p), "F16 %#04x", p)
	}
	for p, want := range map[uint16]float32{0x3f80: 1, 0xc000: -2, 0x3eab: 0x1.56p-2,
		0x7f7f: 0x1.fep127, 0x0001: 0x1p-133} {
		require.Equal(t, want, bfloat16Value(p), "BF16 %#04x", p)
	}
	for _, h := range halves {
		require.True(t, math.IsInf(float64(h.value(h.infinity)), 1))
		require.True(t, math.IsInf(float64(h.value(h.infinity|0x8000)), -1))
		require.True(t, math.Signbit(float64(h.value(0x8000))), "minus zero")
		for p := h.infinity + 1; p < 0x8000; p++ {
			require.True(t, math.IsNaN(float64(h.value(p))), "%s %#04x", h.name, p)
		}
	}
}

// The test checks the midpoint of each pair of neighboring 16-bit numbers and the float32 numbers
// next to it. The midpoint below infinity is computed as if infinity were the next power of two.
func TestRoundingIsToNearestTiesToEven(t *testing.T) {
	for _, h := range halves {
		for p := uint16(0); p < h.infinity; p++ {
			low, high := float64(h.value(p)), float64(h.value(p+1))
			if p+1 == h.infinity {
				high = 2*low - float64(h.value(p-1))
			}
			middle := float32((low + high) / 2) // exact: the midpoint has only one more bit
			require.Equal(t, (low+high)/2, float64(middle))
			even := p + p&1
			for _, sign := range []uint16{0, 0x8000} {
				s := float32(1)
				if sign != 0 {
					s = -1
				}
				require.Equal(t, even|sign, h.bits(s*middle), "%s middle after %#04x", h.name, p)
				require.Equal(t, p|sign, h.bits(s*math.Nextafter32(middle, 0)),
					"%s below the middle after %#04x", h.name, p)
				require.Equal(t, (p+1)|sign, h.bits(s*math.Nextafter32(middle, math.MaxFloat32)),
					"%s above the middle after %#04x", h.name, p)
			}
		}
		require.Equal(t, h.infinity, h.bits(math.MaxFloat32), h.name)
	}
}

func TestNaNNeverBecomesInfinity(t *testing.T) {
	for _, h := range halves {
		for payload := uint32(1); payload < 1<<23; payload <<= 1 {
			p := h.bits(math.Float32frombits(f32Infinity | payload))
			require.True(t, math.IsNaN(float64(h.value(p))), "%s payload %#x", h.name, payload)
		}
	}
}

// FuzzRoundingTo16Bits checks that no 16-bit number is nearer than the result, and that ties go to
// the even number.
func FuzzRoundingTo16Bits(f *testing.F) {
	for _, seed := range []float32{0, 1, -0.1, 65519.996, 65520, 0x1p-25, 0x1p-14, math.MaxFloat32,
		float32(math.Inf(-1))} {
		f.Add(math.Float32bits(seed))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		v := math.Float32frombits(bits)
		for _, h := range halves {
			p := h.bits(v)
			if v != v {
				require.True(t, math.IsNaN(float64(h.value(p))))
				continue
			}
			require.Equal(t, math.Signbit(float64(v)), p&0x8000 != 0)
			// Infinity has no distance to compare. The test of ties checks where rounding to
			// infinity begins.
			if p&0x7fff == h.infinity {
				continue
			}
			miss := math.Abs(float64(v) - float64(h.value(p)))
			for _, q := range []uint16{p - 1, p + 1} {
				if q&0x7fff >= h.infinity || q&0x8000 != p&0x8000 {
					continue
				}
				other := math.Abs(float64(v) - float64(h.value(q)))
				require.True(t, miss < other || miss == other && p&1 == 0, "%s: %v became %#04x, "+
					"%#04x is as near or nearer", h.name, v, p, q)
			}
		}
	})
}
