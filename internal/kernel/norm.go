package kernel

import "math"

// LayerNorm sets y = (x - mean)/sqrt(var + eps) * gain + bias with the row's mean and
// biased variance, and returns the mean and 1/sqrt(var + eps), which backward needs.
// Both sums are kept in float64: they are short and decide the whole row. All slices
// have one length; y may be x.
func LayerNorm(y, x, gain, bias []float32, eps float64) (mean, rstd float32) {
	sameLength("LayerNorm", len(x), len(y))
	sameLength("LayerNorm", len(x), len(gain))
	sameLength("LayerNorm", len(x), len(bias))
	var lanes [8]float64
	sum(x, &lanes)
	m := fold64(lanes[:]) / float64(len(x))
	lanes = [8]float64{}
	squares(x, m, &lanes)
	mean, rstd = float32(m), float32(1/math.Sqrt(fold64(lanes[:])/float64(len(x))+eps))
	normalize(y, x, gain, bias, mean, rstd)
	return mean, rstd
}

// LayerNormBackward sets dx, which may be dy, from dy and the forward's x, mean and
// rstd:
//
//	dx = rstd (gain dy - mean(gain dy) - xhat mean(gain dy xhat)),  xhat = (x - mean) rstd
func LayerNormBackward(dx, dy, x, gain []float32, mean, rstd float32) {
	sameLength("LayerNormBackward", len(x), len(dx))
	sameLength("LayerNormBackward", len(x), len(dy))
	sameLength("LayerNormBackward", len(x), len(gain))
	var lanes [16]float64
	normDots(dy, x, gain, mean, rstd, &lanes)
	n := float64(len(x))
	normBackward(dx, dy, x, gain, mean, rstd, float32(fold64(lanes[:8])/n), float32(fold64(lanes[8:])/n))
}

// LayerNormGain adds a row's part of the gain's gradient: dgain += dy xhat.
func LayerNormGain(dgain, dy, x []float32, mean, rstd float32) {
	sameLength("LayerNormGain", len(x), len(dgain))
	sameLength("LayerNormGain", len(x), len(dy))
	normGain(dgain, dy, x, mean, rstd)
}

// sumGo adds x[i] to lanes[i%8].
func sumGo(x []float32, lanes *[8]float64) {
	for i, v := range x {
		lanes[i%8] += float64(v)
	}
}

// squaresGo adds (x[i] - mean)² to lanes[i%8].
func squaresGo(x []float32, mean float64, lanes *[8]float64) {
	for i, v := range x {
		d := float64(v) - mean
		lanes[i%8] += float64(d * d)
	}
}

// normalizeGo sets y = (x - mean) rstd gain + bias.
func normalizeGo(y, x, gain, bias []float32, mean, rstd float32) {
	for i, v := range x {
		y[i] = float32((v-mean)*rstd*gain[i]) + bias[i]
	}
}

// normDotsGo adds gain*dy to the first eight lanes and gain*dy*xhat to the others.
func normDotsGo(dy, x, gain []float32, mean, rstd float32, lanes *[16]float64) {
	for i, d := range dy {
		g := float64(float32(d * gain[i]))
		lanes[i%8] += g
		lanes[8+i%8] += float64(g * float64(float32((x[i]-mean)*rstd)))
	}
}

// normBackwardGo sets dx = rstd (gain dy - meanG - xhat meanGX).
func normBackwardGo(dx, dy, x, gain []float32, mean, rstd, meanG, meanGX float32) {
	for i, d := range dy {
		xhat := float32((x[i] - mean) * rstd)
		dx[i] = rstd * (float32(d*gain[i]) - meanG - float32(xhat*meanGX))
	}
}

func normGainGo(dgain, dy, x []float32, mean, rstd float32) {
	for i, d := range dy {
		dgain[i] += float32(float32((x[i]-mean)*rstd) * d)
	}
}

// fold64 adds eight lanes as fold does.
func fold64(l []float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}
