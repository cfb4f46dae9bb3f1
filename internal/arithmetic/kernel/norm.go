package kernel

import "math"

// LayerNorm sets y = (x - mean)/sqrt(var + eps) * gain + bias, with the mean and the biased
// variance of x. It returns the mean and rstd = 1/sqrt(var + eps) for LayerNormBackward. Both sums
// are in float64, since they affect the whole row and the cost is small. All slices have equal
// length. y may be x.
func (v Vectors) LayerNorm(y, x, gain, bias []float32, eps float64) (mean, rstd float32) {
	sameLength("LayerNorm", len(x), len(y))
	sameLength("LayerNorm", len(x), len(gain))
	sameLength("LayerNorm", len(x), len(bias))
	var lanes [8]float64
	v.sum(x, &lanes)
	m := fold64(lanes[:]) / float64(len(x))
	lanes = [8]float64{}
	v.squares(x, m, &lanes)
	mean, rstd = float32(m), float32(1/math.Sqrt(fold64(lanes[:])/float64(len(x))+eps))
	v.normalize(y, x, gain, bias, mean, rstd)
	return mean, rstd
}

// LayerNormBackward computes the gradient dx of the input x from the gradient dy of the output.
//
//	dx = rstd (gain dy - mean(gain dy) - xhat mean(gain dy xhat)),  xhat = (x - mean) rstd
func (v Vectors) LayerNormBackward(dx, dy, x, gain []float32, mean, rstd float32) {
	sameLength("LayerNormBackward", len(x), len(dx))
	sameLength("LayerNormBackward", len(x), len(dy))
	sameLength("LayerNormBackward", len(x), len(gain))
	var lanes [16]float64
	v.normDots(dy, x, gain, mean, rstd, &lanes)
	n := float64(len(x))
	v.normBackward(dx, dy, x, gain, mean, rstd, float32(fold64(lanes[:8])/n),
		float32(fold64(lanes[8:])/n))
}

// LayerNormGain adds a row's contribution dy (x - mean) rstd to the gradient of the gain.
func (v Vectors) LayerNormGain(dgain, dy, x []float32, mean, rstd float32) {
	sameLength("LayerNormGain", len(x), len(dgain))
	sameLength("LayerNormGain", len(x), len(dy))
	v.normGain(dgain, dy, x, mean, rstd)
}

// fold64 adds eight lanes in the same order as fold.
func fold64(l []float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}
