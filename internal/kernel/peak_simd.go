//go:build amd64 && !noasm

package kernel

//go:generate sh -c "cd _generate && go run . peak -out ../peak_amd64.s -stubs ../peak_amd64.go -pkg kernel"

// runPeak runs the rounds and returns the width of the vectors.
func runPeak(rounds int) int {
	var chains [16 * peakChains]float32
	switch {
	case micro == &avx512:
		peakAVX512(rounds, &chains[0])
		return 16
	case simd:
		peakAVX2(rounds, &chains[0])
		return 8
	}
	peakGo(rounds, (*[peakChains]float32)(chains[:]))
	return 1
}

func peakName() string {
	switch {
	case micro == &avx512:
		return "AVX-512 FMA"
	case simd:
		return "AVX2 FMA"
	}
	return peakNameGo
}
