package kernel

const (
	peakChains = 12
	peakSteps  = 4

	// The chains converge to about 1.18, so no number becomes subnormal.
	peakFactor = float32(0.7310586)
	peakShift  = float32(0.3183099)
)

// peakGo advances every chain by rounds*peakSteps steps of c = peakFactor*c + peakShift.
func peakGo(rounds int, c *[peakChains]float32) {
	c0, c1, c2, c3, c4, c5 := c[0], c[1], c[2], c[3], c[4], c[5]
	c6, c7, c8, c9, c10, c11 := c[6], c[7], c[8], c[9], c[10], c[11]
	for range rounds * peakSteps {
		c0 = float32(peakFactor*c0) + peakShift
		c1 = float32(peakFactor*c1) + peakShift
		c2 = float32(peakFactor*c2) + peakShift
		c3 = float32(peakFactor*c3) + peakShift
		c4 = float32(peakFactor*c4) + peakShift
		c5 = float32(peakFactor*c5) + peakShift
		c6 = float32(peakFactor*c6) + peakShift
		c7 = float32(peakFactor*c7) + peakShift
		c8 = float32(peakFactor*c8) + peakShift
		c9 = float32(peakFactor*c9) + peakShift
		c10 = float32(peakFactor*c10) + peakShift
		c11 = float32(peakFactor*c11) + peakShift
	}
	*c = [peakChains]float32{c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11}
}

const peakNameGo = "scalar multiply and add"
