package txl

// Reuse tells which results a segment may keep for its next use. The zero value changes no bit of
// any result.
type Reuse struct {
	// FixedWeights promises that the slow weights of a model never change. Begin then keeps results
	// that depend only on slow weights. All results keep their bits.
	FixedWeights bool
	// StaleKeys makes Continue keep the memory's keys and values although their fast weights have
	// changed. Backward treats these keys and values as constants. The results differ from those
	// with recomputed keys and values. Only the next Begin recomputes them.
	StaleKeys bool
}

// keyed contains the activations of one layer that have a row for each key. A segment uses a window
// of these rows, and Continue moves the window forward.
type keyed struct {
	in         []float32 // c = [memory; input] [rows*B,D]
	kv         []float32 // keys, then values [rows*B,2*H*d]
	cn         []float32 // pre-norm only: LN(c) [rows*B,D]
	mean, rstd []float32 // pre-norm only: mean and 1/deviation of the rows of c [rows*B]
}
