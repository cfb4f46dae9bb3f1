package kernel

// Precision is how the matrix products round their operands, or how an Array holds its
// numbers.
type Precision string

const (
	// Float32 is the arithmetic of the package comment.
	Float32 Precision = "float32"

	// BF16 rounds both operands to bfloat16, which has float32's exponent and 8 bits of
	// significand: to nearest, ties to even, B after its Add was added in float32. Their
	// products are summed in float32 as Intel's instruction TDPBF16PS does it, 32 k's at
	// a time, in order (VDPBF16PS goes on along one of the two chains at a time):
	//
	//	even, odd := 0, 0
	//	for k := k0; k < k0+32; k += 2 {
	//		even = fma(a[k], b[k], even)
	//		odd = fma(a[k+1], b[k+1], odd)
	//	}
	//	c += even + odd
	//
	// from c = 0, or from the element of C that is added to. Further k's up to a multiple
	// of 32 count as zeros. Every operation rounds to nearest even and takes subnormal
	// numbers for zero, in what it reads and in what it gives. So element (i,j) keeps the
	// promise of the package comment, but for the sign of a zero that is left of a sum too
	// small for a float32; and a product cut at a multiple of 32 k's has the bits of the whole.
	BF16 Precision = "bf16"
)
