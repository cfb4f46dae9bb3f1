package companion

import (
	"testing"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

func BenchmarkScore(b *testing.B) {
	text, of := prose(200000, 1), someNetworks(1, 1)
	s, x := New(Settings{TableBytesDefault, 1}), NewScratch(kernel.Arithmetic{}.Vectors())
	for i := 0; b.Loop(); i++ {
		if i%128 == 0 {
			x.Begin(s)
		}
		x.Score(s, of[i%len(of)], text[i%len(text)])
		if i%128 == 127 {
			x.Back(s)
			x.Forth(s)
		}
	}
}

func BenchmarkDistribution(b *testing.B) {
	text, of := prose(100000, 1), someNetworks(1, 1)
	s, x := New(Settings{TableBytesDefault, 1}), NewScratch(kernel.Arithmetic{}.Vectors())
	for i, c := range text {
		if i%128 == 0 {
			x.Begin(s)
		}
		x.Score(s, of[i%len(of)], c)
	}
	var logProbs [256]float32
	for i := 0; b.Loop(); i++ {
		x.Distribution(s, of[i%len(of)], logProbs[:])
	}
}

func BenchmarkGradient(b *testing.B) {
	of, x := someNetworks(1, 1), NewScratch(kernel.Arithmetic{}.Vectors())
	slopes, gradient := Slopes{0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8}, make([]float32, 256)
	for i := 0; b.Loop(); i++ {
		x.Gradient(of[i%len(of)][0], byte(i), &slopes, 0.5, gradient)
	}
}
