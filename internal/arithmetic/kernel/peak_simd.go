package kernel

//go:generate sh -c "cd _generate && go run . peak -out ../peak_amd64.s -stubs ../peak_amd64.go -pkg kernel"

// runPeak advances the chains by the given number of rounds, and returns the number of floats in a
// vector.
func (v Vectors) runPeak(rounds int) int {
	var chains [16 * peakChains]float32
	switch {
	case v.set == AVX512:
		peakAVX512(rounds, &chains[0])
		return 16
	case v.set == AVX2:
		peakAVX2(rounds, &chains[0])
		return 8
	}
	peakGo(rounds, (*[peakChains]float32)(chains[:]))
	return 1
}

func (v Vectors) peakName() string {
	switch {
	case v.set == AVX512:
		return "AVX-512 FMA"
	case v.set == AVX2:
		return "AVX2 FMA"
	}
	return peakNameGo
}
