package kernel

// lines are the rows of op(A), or the columns of op(B).
type lines struct {
	data, add []float32
	stride    int
	// True if adjacent elements in memory belong to the same line, false if they have the same k.
	along bool
}

// linesOf returns the rows of m if along is true, else its columns.
func linesOf(m Matrix, along bool) lines {
	return lines{data: m.Data, add: m.Add, stride: m.Stride, along: along}
}

// from returns the elements from the given line and index k on, and those to add to them.
func (l *lines) from(line, k int) (data, add []float32) {
	at := k*l.stride + line
	if l.along {
		at = line*l.stride + k
	}
	if l.add != nil {
		add = l.add[at:]
	}
	return l.data[at:], add
}

// pack packs n lines, each with k <= bf16BlockK elements, from the given line and index k0 on, into
// panels. The tiles are those of the right operand if right is set, else those of the left operand.
// The packed lines from n on have arbitrary content, since their results are dropped. Missing
// elements of a line are zero. The order of the tiles follows the memory that pack reads.
func (s *bf16Scratch) pack(v Vectors, dst []uint32, l *lines, line, k0, n, k int, right bool) {
	steps, groups := (k+tileK-1)/tileK, (n+tileLines-1)/tileLines
	for t := range steps * groups {
		step, group := t/groups, t%groups
		if l.along {
			step, group = t%steps, t/steps
		}
		i, at := group*tileLines, step*tileK
		data, add := l.from(line+i, k0+at)
		tile := dst[i/panelLines*steps*2*tileWords+tileAt(step, i%panelLines):]
		s.packTile(v, (*[tileWords]uint32)(tile), data, add, l.stride, min(tileLines, n-i),
			min(tileK, k-at), l.along, right)
	}
}

func (s *bf16Scratch) packTile(v Vectors, dst *[tileWords]uint32, data, add []float32,
	stride, n, k int, along, right bool) {
	transposed := along == right
	out := dst
	if transposed {
		out = &s.tile
	}
	if along {
		v.pairsAlong(out, data, add, stride, n, k)
	} else {
		v.pairsAcross(out, data, add, stride, n, k)
	}
	if transposed {
		v.transposeTile(dst, out)
	}
	if s.kernel.chains {
		v.regroup(dst, right)
	}
}
