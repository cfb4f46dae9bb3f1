package kernel

// lines are lines of an operand, from some line and some k on. A line is a row of op(A) or a column
// of op(B).
type lines struct {
	data, add []float32
	stride    int
	along     bool // true: the elements of a line are adjacent; false: those of a k are
}

// linesOf returns the lines of m, from the given line and k on.
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

// packPanel packs n <= 32 lines of k <= bf16BlockK k's in tiles of A, or of B if right is set.
// Lines from n on may hold anything, since their results are dropped. Missing k's are zero.
func (s *bf16Scratch) packPanel(v Vectors, dst []uint32, l lines, n, k int, right bool) {
	for k0 := 0; k0 < k; k0 += tileK {
		for line := 0; line < n; line += tileLines {
			at := line*l.stride + k0
			if !l.along {
				at = k0*l.stride + line
			}
			tile := (*[tileWords]uint32)(dst[tileAt(k0/tileK, line):])
			s.packTile(v, tile, l.from(at), min(tileLines, n-line), min(tileK, k-k0), right)
		}
	}
}

// packTile packs one tile.
func (s *bf16Scratch) packTile(v Vectors, dst *[tileWords]uint32, l lines, n, k int, right bool) {
	transposed := l.along == right
	out := dst
	if transposed {
		out = &s.tile
	}
	if l.along {
		v.pairsAlong(out, l.data, l.add, l.stride, n, k)
	} else {
		v.pairsAcross(out, l.data, l.add, l.stride, n, k)
	}
	if transposed {
		v.transposeTile(dst, out)
	}
	if s.kernel.chains {
		v.regroup(dst, right)
	}
}
