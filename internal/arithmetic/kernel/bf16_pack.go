package kernel

// lines are the rows of op(A), or the columns of op(B), from a given line and index k on.
type lines struct {
	data, add []float32
	stride    int
	// True if adjacent elements in memory belong to the same line, false if they have the same k.
	along bool
}

// linesOf returns the rows of m if along is true, else its columns, from the given line and index k
// on.
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

// packPanel packs n <= 32 lines of k <= bf16BlockK elements. The tiles are those of the right
// operand if right is set, else those of the left operand. The packed lines from n on have
// arbitrary content, since their results are dropped. Missing elements of a line are zero.
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
