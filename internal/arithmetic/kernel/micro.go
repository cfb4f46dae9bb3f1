package kernel

// microKernel computes tiles of C. The function tile computes the first `rows` rows, from 1 to
// microKernel.rows, and all columns of a tile. It sets them, or adds to them if acc is set:
//
//	c[i*stride+j] (+)= sum over p < k of a[i*row+p*col] * b[p*width+j]
//
// Every element is one chain of multiply-adds from p = 0 upwards, starting at zero. Then the
// chain's sum is stored in c or added to c. The package comment guarantees this order.
type microKernel struct {
	name       string
	rows, cols int
	tile       func(rows, k int, a []float32, row, col int, b []float32, width int, c []float32,
		stride int, acc bool)
}

const maxRows, maxCols = 12, 32

var portable = microKernel{name: "float32", rows: 6, cols: portableCols, tile: tileGo}

const portableCols = 16

// tileGo is the portable micro-kernel, and the reference for the tests of the other micro-kernels.
// It computes eight elements at a time, in registers.
func tileGo(rows, k int, a []float32, row, col int, b []float32, width int, c []float32, stride int,
	acc bool) {
	for i := range rows {
		for j := 0; j < portableCols; j += 8 {
			sum := chains(k, a[i*row:], col, b[j:], width)
			out := (*[8]float32)(c[i*stride+j:])
			if !acc {
				*out = sum
				continue
			}
			for l := range out {
				out[l] += sum[l]
			}
		}
	}
}

// chains returns eight adjacent elements of a tile, each computed as one chain of multiply-adds.
// The explicit conversions prevent the compiler from fusing multiplication and addition.
func chains(k int, a []float32, col int, b []float32, width int) [8]float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for p := range k {
		x, y := a[p*col], (*[8]float32)(b[p*width:])
		s0 += float32(x * y[0])
		s1 += float32(x * y[1])
		s2 += float32(x * y[2])
		s3 += float32(x * y[3])
		s4 += float32(x * y[4])
		s5 += float32(x * y[5])
		s6 += float32(x * y[6])
		s7 += float32(x * y[7])
	}
	return [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}
