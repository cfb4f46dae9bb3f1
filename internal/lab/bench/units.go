package bench

// Units of speed.
const (
	gflops = "GFLOP/s"
	gbytes = "GB/s"
	bytes  = "byte/s"
	tokens = "token/s"
)
