package lines

import "testing"

func BenchmarkAdd(b *testing.B) {
	m := NewMeter()
	text, costs := ordinaryLog(1000, 1)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for i, c := range text {
			m.Add(c, costs[i], 0, nil)
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	m, r := NewMeter(), NewRecords(0, "")
	text, costs := ordinaryLog(1000, 1)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for i, c := range text {
			m.Add(c, costs[i], 0, func(l *Line) { r.Take(l, func(*Line) {}) })
		}
	}
}
