package kernel

const golden = 0x9E3779B97F4A7C15 // increment of SplitMix64: 2^64 divided by the golden ratio

// Bits returns 64 random bits: output number `counter`, counted from 0, of the generator SplitMix64
// with the initial state `key`.
func Bits(key, counter uint64) uint64 {
	return mix(key + (counter+1)*golden)
}

// Key derives the key of a generator from numbers. The key depends on their order and count.
func Key(parts ...uint64) uint64 {
	h := uint64(0)
	for _, part := range parts {
		h = mix(h ^ mix(part+golden))
	}
	return h
}

// mix is the output function of SplitMix64, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
