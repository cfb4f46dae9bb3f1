package companion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// small returns settings with the smallest table, so that even a short text fills it.
func small(networks int) Settings { return Settings{TableBytesMin, networks} }

func widest() *Scratch { return NewScratch(kernel.Arithmetic{}.Vectors()) }

// reader feeds a text to a state. The networks' distributions for the bytes repeat in a cycle.
type reader struct {
	s  *State
	x  *Scratch
	of []Networks
	at int
}

// feed scores a text as one piece and returns the cost of each byte in nats.
func (r *reader) feed(text []byte) (nll []float32) {
	r.x.Begin(r.s)
	for _, b := range text {
		nll = append(nll, r.x.Score(r.s, r.of[r.at%len(r.of)], b))
		r.at++
	}
	return nll
}

func requireSame(t require.TestingT, want, got *State) {
	require.Equal(t, want.settings, got.settings)
	require.Equal(t, want.place, got.place)
	require.Equal(t, want.table, got.table)
	require.Equal(t, want.text, got.text)
	require.Equal(t, want.words, got.words)
	for i, v := range want.floats {
		if math.Float32bits(v) != math.Float32bits(got.floats[i]) {
			require.Failf(t, "floats differ", "number %d: want %v, got %v", i, v, got.floats[i])
		}
	}
}

func drawText(t *rapid.T, most int) []byte {
	n, seed := rapid.IntRange(1, most).Draw(t, "bytes"), rapid.Uint64().Draw(t, "seed")
	switch rapid.SampledFrom([]string{"prose", "random", "one byte", "records"}).Draw(t, "kind") {
	case "prose":
		return prose(n, seed)
	case "random":
		return randomBytes(n, seed)
	case "records":
		return records(n, seed)
	}
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(seed)
	}
	return text
}

func randomBytes(n int, seed uint64) []byte {
	rng, text := rand.New(rand.NewPCG(seed, 3)), make([]byte, n)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	return text
}

// records returns lines with several fields. Most fields repeat the field of the previous line.
func records(n int, seed uint64) (text []byte) {
	rng := rand.New(rand.NewPCG(seed, 4))
	line := []byte("2024-06-01,north,000,ok;\tunchanged for long\n")
	for len(text) < n {
		line[16+rng.IntN(3)] = byte('0' + rng.IntN(10))
		text = append(text, line...)
	}
	return text[:n]
}

func prose(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var words [400][]byte
	for i := range words {
		for range 2 + rng.IntN(8) {
			words[i] = append(words[i], byte('a'+rng.IntN(26)))
		}
	}
	var text []byte
	for len(text) < n {
		often := rng.IntN(len(words)) * rng.IntN(len(words)) / len(words)
		text = append(text, words[often]...)
		text = append(text, " .,\n"[rng.IntN(13)*rng.IntN(2)%4])
	}
	return text[:n]
}

func someNetworks(networks int, seed uint64) (all []Networks) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 61 {
		var of Networks
		for i := range networks {
			of[i] = distribution(rng)
		}
		all = append(all, of)
	}
	return all
}

// distribution returns log-probabilities that look like the output of a network. They are multiples
// of 2^-10, so that they are the same on every machine. The probabilities sum to 1 within about
// .01.
func distribution(rng *rand.Rand) []float32 {
	logits, sum := make([]float64, 256), 0.
	for i := range logits {
		logits[i] = 3 * rng.NormFloat64()
		sum += math.Exp(logits[i])
	}
	p := make([]float32, 256)
	for i, l := range logits {
		p[i] = float32(math.Round((l-math.Log(sum))*1024) / 1024)
	}
	return p
}

func uniform() []Networks {
	p := make([]float32, 256)
	for i := range p {
		p[i] = -8 * math.Ln2
	}
	return []Networks{{p, p}}
}

func certain(b byte) []float32 {
	p := make([]float32, 256)
	for i := range p {
		p[i] = float32(math.Inf(-1))
	}
	p[b] = 0
	return p
}

func bitsOf(nll []float32) (sum float64) {
	for _, v := range nll {
		sum += float64(v) / math.Ln2
	}
	return sum
}

func sumOf(logProbs []float32) (sum float64) {
	for _, v := range logProbs {
		sum += math.Exp(float64(v))
	}
	return sum
}

func eachSet(t *testing.T, test func(t *testing.T, v kernel.Vectors)) {
	for _, set := range []kernel.Instructions{kernel.Portable, kernel.AVX2, kernel.AVX512} {
		a := kernel.Arithmetic{Instructions: set}
		if a.Validate() != nil {
			continue
		}
		t.Run(set.String(), func(t *testing.T) { test(t, a.Vectors()) })
	}
}
