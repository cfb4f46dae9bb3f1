package kernel

import "math"

// lines are lines of an operand from some k on: rows of op(A) or columns of op(B).
type lines struct {
	data, add []float32
	stride    int
	along     bool // neighbours in memory are the k's of a line, else the lines of a k
}

// linesOf is the lines of m from the given one on, and of those the k's.
func linesOf(m Matrix, along bool, line, k int) lines {
	l := lines{data: m.Data, add: m.Add, stride: m.Stride, along: along}
	if along {
		return l.from(line*m.Stride + k)
	}
	return l.from(k*m.Stride + line)
}

func (l lines) from(at int) lines {
	l.data = l.data[at:]
	if l.add != nil {
		l.add = l.add[at:]
	}
	return l
}

// packPanel packs n <= 32 lines of k <= bf16BlockK k's in tiles of A, or of B if right.
// Lines that do not exist hold anything: what becomes of them is dropped. k's that do
// not exist are zero.
func (s *bf16Scratch) packPanel(dst []uint32, l lines, n, k int, right bool) {
	for line := 0; line < n; line += tileLines {
		for k0 := 0; k0 < k; k0 += tileK {
			at := line*l.stride + k0
			if !l.along {
				at = k0*l.stride + line
			}
			tile := (*[tileWords]uint32)(dst[tileAt(k0/tileK, line):])
			s.packTile(tile, l.from(at), min(tileLines, n-line), min(tileK, k-k0), right)
		}
	}
}

// packTile packs one tile.
func (s *bf16Scratch) packTile(dst *[tileWords]uint32, l lines, n, k int, right bool) {
	transposed := l.along == right
	out := dst
	if transposed {
		out = &s.tile
	}
	if l.along {
		pairsAlong(out, l.data, l.add, l.stride, n, k)
	} else {
		pairsAcross(out, l.data, l.add, l.stride, n, k)
	}
	if transposed {
		transposeTile(dst, out)
	}
}

// pairsAlongGo packs n lines, each k floats in a row, as [line][pair]:
// dst[i][p] = src[i][2p], src[i][2p+1], with add added. k's up to 32 become zero.
func pairsAlongGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	for i := range n {
		out := dst[i*tilePairs:][:tilePairs]
		clear(out)
		for p := range k {
			out[p/2] |= sumBF16(src, add, i*stride+p) << (p % 2 * 16)
		}
	}
}

// pairsAcrossGo packs n lines, the k's of each in a column, as [pair][line]:
// dst[p][j] = src[2p][j], src[2p+1][j], with add added. k's up to 32 become zero.
func pairsAcrossGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	clear(dst[:])
	for p := range k {
		out := dst[p/2*tileLines:][:n]
		for j := range out {
			out[j] |= sumBF16(src, add, p*stride+j) << (p % 2 * 16)
		}
	}
}

// sumBF16 is src[i] + add[i], rounded.
func sumBF16(src, add []float32, i int) uint32 {
	v := src[i]
	if add != nil {
		v += add[i]
	}
	return roundBF16(v)
}

// transposeTileGo sets dst[i][j] = src[j][i].
func transposeTileGo(dst, src *[tileWords]uint32) {
	for i := range tileLines {
		for j := range tileLines {
			dst[i*tileLines+j] = src[j*tileLines+i]
		}
	}
}

// roundBF16 is the bits of x rounded to bfloat16, NaN made quiet.
func roundBF16(x float32) uint32 {
	b := math.Float32bits(x)
	if x != x {
		return b>>16 | 0x40
	}
	return (b + 0x7fff + b>>16&1) >> 16
}
