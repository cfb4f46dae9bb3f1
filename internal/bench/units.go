package bench

// Units of speed.
const (
	gflops = "GFLOP/s"
	gbytes = "GB/s"
	chars  = "char/s"
	tokens = "token/s"
)
