package txl

// Reuse says what a segment may keep of what it has computed, beyond what gives the same bits
// wherever the segment is used.
type Reuse struct {
	// FixedWeights promises that the slow weights of a model never change. Then Begin keeps what
	// was made of them alone, to the same bits.
	FixedWeights bool
	// StaleKeys makes Continue keep the memory's keys and values although the fast weights that
	// made them have changed since. They are constants to Backward. The numbers are others than
	// those of keys and values that are computed again; only the next Begin computes these.
	StaleKeys bool
}

// keyed are the activations of one layer that have a row for each key, [rows,*] with the rows of
// all streams side by side. A segment sees them through a window, which Continue moves on.
type keyed struct {
	in         []float32 // c = [memory; input] [rows*B,D]
	kv         []float32 // keys, then values [rows*B,2*H*d]
	cn         []float32 // pre-norm only: LN(c) [rows*B,D]
	mean, rstd []float32 // pre-norm only: of that normalisation [rows*B]
}
