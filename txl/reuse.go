package txl

// Reuse says which results a segment may keep for its next use. The zero value permits only results
// that leave every bit unchanged.
type Reuse struct {
	// FixedWeights promises that the slow weights of a model never change. Begin then keeps results
	// that depend on slow weights alone. The bits stay the same.
	FixedWeights bool
	// StaleKeys makes Continue keep the memory's keys and values although their fast weights have
	// changed. Backward treats them as constants. The numbers differ from those of recomputed
	// keys and values; only the next Begin recomputes them.
	StaleKeys bool
}

// keyed contains the activations of one layer that have a row for each key, [rows,*], with the rows
// of all streams side by side. A segment uses a window of these rows, which Continue moves forward.
type keyed struct {
	in         []float32 // c = [memory; input] [rows*B,D]
	kv         []float32 // keys, then values [rows*B,2*H*d]
	cn         []float32 // pre-norm only: LN(c) [rows*B,D]
	mean, rstd []float32 // pre-norm only: mean and 1/deviation of c's rows [rows*B]
}
