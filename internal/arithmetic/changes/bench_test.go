package changes

import "testing"

func BenchmarkTake(b *testing.B) {
	log := ordinary(4000, 15)
	size := 0
	for _, l := range log {
		size += len(l)
	}
	d := New()
	each := func(*Change) {}
	b.SetBytes(int64(size / len(log)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Take(log[i%len(log)], each)
	}
}

func BenchmarkAppendState(b *testing.B) {
	d := New()
	take(d, ordinary(2000, 15))
	var state []byte
	for b.Loop() {
		state = d.AppendState(state[:0])
	}
}
