package kernel

import "math"

// Tiles are AMX's: of C (16,16) float32; of A 16 rows of 16 pairs of k's; of B 16 pairs
// of k's by 16 columns. Each is 1 KiB. A pair is one word, the even k below.
const (
	tileLines  = 16 // rows of A or columns of B in a tile
	tilePairs  = 16
	tileK      = 2 * tilePairs
	tileWords  = tileLines * tilePairs
	panelLines = 2 * tileLines // a block of C is (32,32), 4 tiles: with 2 of A and 2 of B all that there are
	bf16BlockK = 512           // k's packed at once: a panel of B, 32 KiB, stays in L1. Has no part in the bits
	panelWords = panelLines / 2 * bf16BlockK
	leftPanels = (blockRows + panelLines - 1) / panelLines
)

// bf16Scratch is the packed operands of a product in bf16. A panel is 32 lines in
// tiles: [k/32][2][tileWords].
type bf16Scratch struct {
	left  [leftPanels * panelWords]uint32  // of A, all rows of a piece
	right [panelWords]uint32               // of B
	tile  [tileWords]uint32                // to be transposed
	block [panelLines * panelLines]float32 // a block that does not lie wholly inside C
}

// doBF16 is Do in bf16: rows i0 to i1-1 and columns j0 to j1-1.
func (p *product) doBF16(w *Exec, i0, i1, j0, j1 int) {
	w.scratch.alloc()
	s := w.scratch.bf16
	for k0 := 0; k0 < p.k; k0 += bf16BlockK {
		k := min(bf16BlockK, p.k-k0)
		steps := (k + tileK - 1) / tileK
		for i := i0; i < i1; i += panelLines {
			at := (i - i0) / panelLines * steps * 2 * tileWords
			s.packPanel(s.left[at:], linesOf(p.a, !p.transA, i, k0), min(panelLines, i1-i), k, false)
		}
		for j := j0; j < j1; j += panelLines {
			cols := min(panelLines, j1-j)
			s.packPanel(s.right[:], linesOf(p.b, p.transB, j, k0), cols, k, true)
			tilesBF16(s, i1-i0, cols, steps, p.c.Data[i0*p.c.Stride+j:], p.c.Stride, p.acc || k0 > 0)
		}
	}
}

// tilesBF16 computes rows of C, and cols <= 32 columns, from the packed panels: the tiles
// of this machine, or tilesGo in tests.
var tilesBF16 = tilesAMX

// tilesGo is the reference of tilesAMX.
func tilesGo(s *bf16Scratch, rows, cols, steps int, c []float32, stride int, acc bool) {
	for i := range rows {
		left := s.left[i/panelLines*steps*2*tileWords:]
		for j := range cols {
			sum := &c[i*stride+j]
			if !acc {
				*sum = 0
			}
			for step := range steps {
				a := left[tileAt(step, i%panelLines)+i%tileLines*tilePairs:]
				b := s.right[tileAt(step, j)+j%tileLines:]
				*sum = addFlushed(*sum, dotBF16(a, b))
			}
		}
	}
}

// tileAt is where the tile begins that holds a line of a panel.
func tileAt(step, line int) int { return (2*step + line/tileLines) * tileWords }

// dotBF16 is the sum over one tile's k's: a row of A's by a column of B's.
func dotBF16(a, b []uint32) float32 {
	const high = 0xffff << 16
	var even, odd float32
	for p := range tilePairs {
		x, y := a[p], b[p*tileLines]
		even = fmaFlushed(math.Float32frombits(x<<16), math.Float32frombits(y<<16), even)
		odd = fmaFlushed(math.Float32frombits(x&high), math.Float32frombits(y&high), odd)
	}
	return addFlushed(even, odd)
}

// fmaFlushed is a*b+c for a and b of 8 bits each, rounded once. Their product has 16
// bits, so float64 holds the sum exactly unless one summand is beyond the last bit of
// the other's float32, where the second rounding gives what one alone would.
func fmaFlushed(a, b, c float32) float32 {
	const tiny = 0x1p-126 - 0x1p-151 // what is smaller rounds to less than the smallest normal float32
	sum := float64(float64(flush(a))*float64(flush(b))) + float64(c)
	if math.Abs(sum) < tiny {
		return float32(math.Copysign(0, sum))
	}
	return float32(sum)
}

// addFlushed is a+b.
func addFlushed(a, b float32) float32 { return flush(flush(a) + flush(b)) }

// flush is x, or the zero of its sign if x is subnormal.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&(0xff<<23) == 0 {
		return math.Float32frombits(b & (1 << 31))
	}
	return x
}
