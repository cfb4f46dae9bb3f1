package kernel

// Precision is the number format to which a matrix product rounds its operands, or the format of an
// Array.
type Precision string

const (
	// Float32 computes products in float32, in the order that the package comment describes.
	Float32 Precision = "float32"

	// BF16 rounds both operands to bfloat16, which has the exponent of float32 and 8 bits of
	// significand. Rounding is to nearest, ties to even. B is rounded after Add is added in
	// float32. Products are summed in float32 in the order of Intel's instruction TDPBF16PS, which
	// adds 32 products at a time. VDPBF16PS advances one of the two chains at a time:
	//
	//	even, odd := 0, 0
	//	for k := k0; k < k0+32; k += 2 {
	//	    even = fma(a[k], b[k], even)
	//	    odd = fma(a[k+1], b[k+1], odd)
	//	}
	//	c += even + odd
	//
	// c starts at 0 or, if the product is added to C, at the element of C. If the length of the sum
	// is not a multiple of 32, it is padded with zeros. Every operation rounds to nearest even, and
	// treats subnormal inputs and results as zero. Splitting the sum at a multiple of 32 into two
	// products changes no bit. The shape of a product, the position of an element and the number of
	// threads change no bit either. The sign of a zero that replaces a sum too small for float32 is
	// an exception.
	BF16 Precision = "bf16"
)
