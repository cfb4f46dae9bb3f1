package companion

import (
	"testing"

	"github.com/lmserve/lmserve/internal/kernel"
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
