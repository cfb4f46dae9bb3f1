package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// eachBF16 runs a test in bf16 several times: with the portable code, with the packing in assembly,
// and with each kernel of this machine.
func eachBF16(t *testing.T, threads int, test func(t *testing.T, x *Exec)) {
	portable := Arithmetic{Precision: BF16, Instructions: Portable}
	for _, set := range available() {
		t.Run(set.String(), func(t *testing.T) {
			withExec(t, threads, portable, func(t *testing.T, x *Exec) {
				x.packBy(set)
				test(t, x)
			})
		})
	}
	kernels, _ := kernelsBF16()
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			withExec(t, threads, Arithmetic{Precision: BF16}, func(t *testing.T, x *Exec) {
				x.multiplyBy(k)
				test(t, x)
			})
		})
	}
}

func (x *Exec) multiplyBy(k bf16Kernel) {
	x.engine.alloc()
	x.engine.bf16.kernel = k
	if x.pool != nil {
		for i := range x.pool.workers {
			x.pool.workers[i].exec.engine.bf16.kernel = k
		}
	}
}

// packBy sets the instructions with which an Exec packs operands, even if the rest of the Exec is
// portable.
func (x *Exec) packBy(set Instructions) {
	x.engine.vectors = Vectors{set}
	if x.pool != nil {
		for i := range x.pool.workers {
			x.pool.workers[i].exec.engine.vectors = Vectors{set}
		}
	}
}

func eachArithmetic(t *testing.T, threads int, test func(t *testing.T, x *Exec)) {
	eachKernel(t, threads, test)
	t.Run("bf16", func(t *testing.T) { eachBF16(t, threads, test) })
}

func TestBF16ProductsAgreeWithFloat64(t *testing.T) {
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		rapid.Check(t, func(t *rapid.T) {
			m, n, k := dims(t)
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			acc, add := rapid.Bool().Draw(t, "acc"), rapid.Bool().Draw(t, "add")
			c := drawMatrix(t, rng, m, n, false)
			before := append([]float32(nil), c.Data...)
			var a, b Matrix
			switch rapid.IntRange(0, 2).Draw(t, "form") {
			case 0:
				a, b = drawMatrix(t, rng, m, k, false), drawMatrix(t, rng, k, n, add)
				x.MulNN(c, a, b, acc)
			case 1:
				a, b = drawMatrix(t, rng, m, k, false), drawMatrix(t, rng, n, k, add)
				x.MulNT(c, a, b, acc)
				b = b.transposed()
			case 2:
				a, b = drawMatrix(t, rng, k, m, false), drawMatrix(t, rng, k, n, add)
				x.MulTN(c, a, b, acc)
				a = a.transposed()
			}
			requireProduct(t, c, rounded(a), rounded(b), before, acc)
		})
	})
}

func rounded(m Matrix) Matrix {
	r := Mat(m.dense(), m.Rows, m.Cols)
	for i, v := range r.Data {
		r.Data[i] = math.Float32frombits(roundBF16(v) << 16)
	}
	return r
}

// A bf16 product adds in the order that the comment on BF16 documents. The test computes single
// elements in that order.
func TestBF16SumsAreInTheOrderOfTheInstruction(t *testing.T) {
	const k = 2*bf16BlockK + 37
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		a, b, c := normal(k), normal(k), []float32{0.75}
		l, r := rounded(Mat(a, 1, k)).Data, rounded(Mat(b, 1, k)).Data
		want := c[0]
		for from := 0; from < k; from += 32 {
			var even, odd float32
			for p := from; p < min(from+32, k); p += 2 {
				even = fused(l[p], r[p], even)
				if p+1 < k {
					odd = fused(l[p+1], r[p+1], odd)
				}
			}
			want += even + odd
		}
		x.MulNN(Mat(c, 1, 1), Mat(a, 1, k), Mat(b, k, 1), true)
		require.Equal(t, want, c[0])
	})
}

func TestBF16ProductsCutAt32HaveBitsOfWhole(t *testing.T) {
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		a, b := Mat(normal(5*700), 5, 700), Mat(normal(700*40), 700, 40)
		whole := multiply(x, 0, a, b)
		for _, k := range []int{32, 256, 544} {
			parts := multiply(x, 0, a.ColRange(0, k), b.RowRange(0, k))
			x.MulNN(parts, a.ColRange(k, 700), b.RowRange(k, 700), true)
			requireSameBits(t, whole.Data, parts.Data)
		}
	})
}

func TestRoundingToBF16(t *testing.T) {
	for in, want := range map[uint32]uint32{
		0x3f800000: 0x3f80, 0x3f808000: 0x3f80, 0x3f808001: 0x3f81, 0x3f818000: 0x3f82,
		0xbf818000: 0xbf82,
		0x7f7f7fff: 0x7f7f, 0x7f7f8000: 0x7f80, 0x7f800000: 0x7f80, 0xff800000: 0xff80,
		0x80000000: 0x8000,
		0x7f800001: 0x7fc0, 0xffffffff: 0xffff, 0x00008001: 0x0001,
	} {
		require.Equal(t, want, roundBF16(math.Float32frombits(in)), "%#x", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32().Draw(t, "v")
		if v == flush(v) && !math.IsInf(float64(v), 0) && v == v {
			want, _ := new(big.Float).SetPrec(8).SetFloat64(float64(v)).Float32()
			require.Equal(t, math.Float32bits(want)>>16, roundBF16(v), "%g", v)
		}
	})
}

// fmaFlushed rounds the exact sum once, with unlimited exponents. A result below the smallest
// normal number becomes zero.
func TestMultiplyAddsOfBF16AreRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		float := func(name string, significand int) float32 {
			bits := rapid.Uint32Range(0, 1<<24-1).Draw(t, name) &^ (1<<(24-significand) - 1)
			v := math.Ldexp(float64(bits|1<<23),
				rapid.SampledFrom([]int{0, 1, 20, 60, 63, 64}).Draw(t, name+" exponent")-23)
			if rapid.Bool().Draw(t, name+" negative") {
				v = -v
			}
			return float32(v)
		}
		a, b, c := float("a", 8), float("b", 8), float("c", 24)
		if rapid.Bool().Draw(t, "small") {
			a, b, c = a*0x1p-126, b*0x1p-64, c*0x1p-126
		}
		exact := func(v float32) *big.Float {
			return new(big.Float).SetPrec(600).SetFloat64(
				float64(v))
		}
		sum := exact(0).Mul(exact(a), exact(b))
		sum.Add(sum, exact(c))
		sum.SetPrec(24)
		want, _ := sum.Float32()
		if new(big.Float).Abs(sum).Cmp(big.NewFloat(0x1p-126)) < 0 {
			want = 0
		}
		require.Equal(t, want, fmaFlushed(a, b, c)+0, "%g * %g + %g", a, b, c)
	})
}

func TestSmallNumbersAreZeroInBF16(t *testing.T) {
	const least = 0x1p-126
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		for _, s := range []struct{ a, b, c, want float32 }{
			{least / 2, 4, 0, 0},          // a subnormal operand counts as zero
			{0x1.fffffcp-127, 1, 0, 0},    // a subnormal is zero even if rounding makes it normal
			{least, 0.5, 0, 0},            // a subnormal product counts as zero
			{least, 1, 0, least},          //
			{least, 0.5, least, least},    // the product becomes zero before the addition
			{least, -1, least * 1.5, 0},   // a subnormal sum becomes zero
			{least, 1, least / 2, least},  // a subnormal element of C counts as zero
			{0x1p100, 0x1p100, 0, inf(1)}, //
			{0x1p100, -0x1p100, 0, inf(-1)},
		} {
			c := []float32{s.c}
			x.MulNN(Mat(c, 1, 1), Mat([]float32{s.a}, 1, 1), Mat([]float32{s.b}, 1, 1), true)
			require.Equal(t, s.want, c[0], "%g * %g + %g", s.a, s.b, s.c)
		}
	})
}

func inf(sign int) float32 { return float32(math.Inf(sign)) }

func TestArithmetic(t *testing.T) {
	plain := Arithmetic{}.Numerics()
	require.EqualError(t, Arithmetic{Precision: "float16"}.Validate(),
		`precision is "float16", expected float32 or bf16`)
	require.ErrorContains(t, Arithmetic{Instructions: AVX512 + 1}.Validate(), "on this machine")
	require.NoError(t, Arithmetic{Precision: Float32}.Validate())
	require.Equal(t, plain, Arithmetic{Precision: Float32}.Numerics())
	require.Equal(t, "float32", Arithmetic{Instructions: Portable}.Numerics())
	require.Equal(t, plain+"+bf16", Arithmetic{Precision: BF16}.Numerics())
	require.Panics(t, func() { NewExecIn(1, Arithmetic{Precision: "float16"}) })
	for _, set := range available() {
		a := Arithmetic{Instructions: set}
		require.NoError(t, a.Validate())
		require.Equal(t, a, NewExecIn(1, a).Arithmetic())
	}
	if _, missing := kernelsBF16(); missing != nil {
		require.ErrorContains(t, Arithmetic{Precision: BF16}.Validate(), "AMX-BF16 under Linux; "+
			missing.Error())
	} else {
		require.NoError(t, Arithmetic{Precision: BF16}.Validate())
	}
}

func TestArithmeticBelongsToItsExec(t *testing.T) {
	a, b := Mat(normal(40*300), 40, 300), Mat(normal(50*300), 50, 300)
	var want [][]float32
	var execs []*Exec
	for _, precision := range []Precision{Float32, BF16} {
		x := NewExecIn(2, Arithmetic{Precision: precision, Instructions: Portable})
		defer x.Close()
		c := Mat(make([]float32, 40*50), 40, 50)
		x.MulNT(c, a, b, false)
		execs, want = append(execs, x), append(want, c.Data)
	}
	require.NotEqual(t, want[0], want[1])
	var wait sync.WaitGroup
	for i, x := range execs {
		wait.Go(func() {
			for range 20 {
				c := Mat(make([]float32, 40*50), 40, 50)
				x.MulNT(c, a, b, false)
				requireSameBits(t, want[i], c.Data)
			}
		})
	}
	wait.Wait()
}

func TestBF16ProductsDoNotAllocate(t *testing.T) {
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		a, b, c := Mat(normal(40*40), 40, 40), Mat(normal(40*40), 40, 40), Mat(normal(40*40), 40,
			40)
		require.Zero(t, testing.AllocsPerRun(3, func() {
			x.MulNN(c, a, b, false)
			x.MulNT(c, a, b, false)
			x.MulTN(c, a, b, true)
		}))
	})
}

// Signals and other threads may interrupt a kernel and use the same tiles, registers and processor
// modes. The kernel's result must not change.
func TestKernelsForBF16SurviveInterruptions(t *testing.T) {
	kernels, missing := kernelsBF16()
	if missing != nil {
		t.Skip(missing)
	}
	const threads, blocks, steps = 4, leftPanels, bf16BlockK / tileK
	calls := 3000
	if testing.Short() {
		calls = 30
	}
	for _, k := range kernels {
		var busy atomic.Int64
		var wg sync.WaitGroup
		busy.Store(threads)
		results := make([][]float32, threads)
		want := make([]float32, blocks*panelLines*panelLines)
		fill := func(seed uint64) *bf16Scratch {
			s, rng := new(bf16Scratch), rand.New(rand.NewPCG(seed, 0))
			for _, words := range [][]uint32{s.left[:], s.right[:]} {
				for i := range words {
					words[i] = roundBF16(float32(rng.NormFloat64()))<<16 | roundBF16(
						float32(rng.NormFloat64()))
				}
			}
			return s
		}
		for i := range threads {
			wg.Go(func() {
				defer busy.Add(-1)
				s, first, c := fill(uint64(i)), make([]float32, len(want)),
					make([]float32, len(want))
				s.take(k)
				s.tiles(blocks*panelLines, panelLines, steps, first, panelLines, false)
				for range calls {
					s.tiles(blocks*panelLines, panelLines, steps, c, panelLines, false)
					if !sameBits(first, c) {
						results[i] = c
						return
					}
				}
				results[i] = first
			})
		}
		for busy.Load() > 0 {
			runtime.GC() // interrupts every thread by a signal
		}
		wg.Wait()
		for i, got := range results {
			tilesGo(fill(uint64(i)), blocks*panelLines, panelLines, steps, want, panelLines, false)
			requireSameBits(t, want, got)
		}
	}
}

func (s *bf16Scratch) take(k bf16Kernel) {
	s.kernel = k
	for at := 0; k.chains && at < len(s.left); at += tileWords {
		regroupGo((*[tileWords]uint32)(s.left[at:]), false)
	}
	for at := 0; k.chains && at < len(s.right); at += tileWords {
		regroupGo((*[tileWords]uint32)(s.right[at:]), true)
	}
}

// Kernels set a processor mode in which subnormal numbers count as zero. Afterwards, other code
// must still compute with subnormal numbers.
func TestSubnormalsSurviveBF16Products(t *testing.T) {
	eachBF16(t, 1, func(t *testing.T, x *Exec) {
		a, b, c := Mat(normal(40*40), 40, 40), Mat(normal(40*40), 40, 40), Mat(normal(40*40), 40,
			40)
		x.MulNN(c, a, b, false)
		least := math.Float32frombits(1)
		require.NotZero(t, float32(least*float32(len(a.Data))))
	})
}

func sameBits(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

func FuzzPackBF16(f *testing.F) {
	f.Add(uint64(1), uint8(16), uint8(32), uint8(0), true, []byte{})
	f.Add(uint64(2), uint8(5), uint8(32), uint8(3), true, binary.LittleEndian.AppendUint32(nil,
		0x7f800001))
	f.Add(uint64(3), uint8(16), uint8(31), uint8(1), false, binary.LittleEndian.AppendUint32(nil,
		0xffffffff))
	f.Add(uint64(4), uint8(16), uint8(32), uint8(0), false, binary.LittleEndian.AppendUint32(nil,
		0x007fffff))
	assembly := others(f)
	f.Fuzz(func(t *testing.T, seed uint64, n, k, gap uint8, add bool, data []byte) {
		lines, ks := 1+int(n-1)%tileLines, 1+int(k-1)%tileK
		rng := rand.New(rand.NewPCG(seed, 0))
		stride := tileK + int(gap%20)
		src := anyFloats(rng, tileK*stride, data)
		var more []float32
		if add {
			more = anyFloats(rng, tileK*stride, nil)
		}
		packed := func(e Vectors) (p [5][tileWords]uint32) {
			e.pairsAlong(&p[0], src, more, stride, lines, ks)
			e.pairsAcross(&p[1], src, more, stride, lines, ks)
			e.transposeTile(&p[2], &p[0])
			p[3], p[4] = p[0], p[1]
			e.regroup(&p[3], false)
			e.regroup(&p[4], true)
			return p
		}
		for _, e := range assembly {
			require.Equal(t, packed(Vectors{}), packed(e))
		}
	})
}

// anyFloats returns n floats whose bits are data, followed by random bits.
func anyFloats(rng *rand.Rand, n int, data []byte) []float32 {
	s := make([]float32, n)
	for i := range s {
		bits := rng.Uint32()
		if len(data) >= 4 {
			bits, data = binary.LittleEndian.Uint32(data), data[4:]
		}
		s[i] = math.Float32frombits(bits)
	}
	return s
}

func FuzzProductBF16(f *testing.F) {
	f.Add(uint8(32), uint8(32), uint16(64), uint8(0), uint8(0), uint64(1), uint8(0), true, true)
	f.Add(uint8(33), uint8(70), uint16(65), uint8(3), uint8(1), uint64(2), uint8(1), false, true)
	f.Add(uint8(70), uint8(33), uint16(7), uint8(1), uint8(2), uint64(3), uint8(2), true, false)
	f.Add(uint8(1), uint8(1), uint16(1), uint8(0), uint8(1), uint64(4), uint8(1), false, false)
	f.Add(uint8(40), uint8(40), uint16(550), uint8(0), uint8(1), uint64(5), uint8(3), true, false)
	f.Fuzz(func(t *testing.T, m, n uint8, k uint16, gap, form uint8, seed uint64, kind uint8, acc,
		add bool) {
		kernels, missing := kernelsBF16()
		if missing != nil {
			t.Skip(missing)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		value := []func() float32{
			func() float32 { return float32(rng.NormFloat64()) },
			func() float32 { return math.Float32frombits(rng.Uint32()) },
			func() float32 { return float32(rng.NormFloat64() * 0x1p-64) },
			func() float32 { return float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(150))) },
		}[kind%4]
		view := func(rows, cols int, add bool) Matrix {
			v := Matrix{Rows: rows, Cols: cols, Stride: cols + int(gap%20)}
			v.Data = make([]float32, rows*v.Stride)
			if add {
				v.Add = make([]float32, rows*v.Stride)
			}
			for _, s := range [][]float32{v.Data, v.Add} {
				for i := range s {
					s[i] = value()
				}
			}
			return v
		}
		a, b, c := view(int(m), int(k%1100), false), view(int(k%1100), int(n), add),
			view(int(m), int(n), false)
		product := forms[form%3]
		before, want := append([]float32(nil), c.Data...), []float32(nil)
		product.mul(NewExecIn(1, Arithmetic{Precision: BF16, Instructions: Portable}), c, a, b, acc)
		want = append(want, c.Data...)
		for _, k := range kernels {
			copy(c.Data, before)
			x := NewExecIn(1, Arithmetic{Precision: BF16})
			x.multiplyBy(k)
			product.mul(x, c, a, b, acc)
			requireSameBits(t, want, c.Data)
		}
	})
}

func BenchmarkGEMMBF16(b *testing.B) {
	if _, missing := kernelsBF16(); missing != nil {
		b.Skip(missing)
	}
	x := NewExecIn(1, Arithmetic{Precision: BF16})
	for _, form := range []string{"NT", "NTAdd", "NN", "TN"} {
		for _, s := range [][3]int{{1, 1536, 512}, {128, 1536, 512}, {128, 512, 2048},
			{1024, 2048, 512}} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", form, s[0], s[1], s[2]),
				func(b *testing.B) { benchProduct(b, x, form, s[0], s[1], s[2]) })
		}
	}
}

func BenchmarkPackBF16(b *testing.B) {
	const k = bf16BlockK
	src, s, e := Mat(normal(k*k), k, k), new(bf16Scratch), Arithmetic{}.Vectors()
	for _, add := range []bool{false, true} {
		if add {
			src.Add = normal(k * k)
		}
		for _, along := range []bool{false, true} {
			for _, right := range []bool{false, true} {
				b.Run(fmt.Sprintf("along=%t/right=%t/add=%t", along, right, add),
					func(b *testing.B) {
						b.SetBytes(4 * panelLines * k)
						l := linesOf(src, along)
						for b.Loop() {
							s.pack(e, s.right[:], &l, 0, 0, panelLines, k, right)
						}
					})
			}
		}
	}
}
