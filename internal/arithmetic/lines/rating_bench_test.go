package lines

import (
	"bytes"
	"fmt"
	"testing"
)

func BenchmarkRating(b *testing.B) {
	var log [][]byte
	size := 0
	for i := range 2000 {
		line := fmt.Appendf(nil, "10.0.%d.%d - - [21/Nov/2026:03:%02d:%02d +0000] \"GET "+
			"/v1/items/%d HTTP/1.1\" %d %d "+
			"\"-\" \"Mozilla/5.0 (X11; Linux x86_64)\" rt=0.%03d", i%7, i%251, i/60%60, i%60,
			i*7919%10007,
			200+i%97/96*304, 512+i*31%4096, i*17%999)
		log, size = append(log, line), size+len(line)
	}
	r := NewRating()
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, line := range log {
			r.Take(bytes.Clone(line))
		}
	}
}
