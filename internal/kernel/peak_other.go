//go:build !amd64 || noasm

package kernel

func runPeak(rounds int) int {
	var chains [peakChains]float32
	peakGo(rounds, &chains)
	return 1
}

func peakName() string { return peakNameGo }
