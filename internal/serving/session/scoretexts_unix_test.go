//go:build unix

package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// BenchmarkScoreTexts measures the time per byte for texts of several lengths, with the default
// model. It shows how much time would be saved by scoring several short texts in one forward pass.
func BenchmarkScoreTexts(b *testing.B) {
	m, err := model.Default()
	require.NoError(b, err)
	mg := newManagerOf(b, m, Options{Threads: 1})
	ignore := func(ModelInfo, Summary) error { return nil }
	text := []byte(strings.Repeat("the cat sat on the mat, and the dog on the log. ", 64))
	for _, set := range []Settings{
		{"method": MethodStatic, "companion": false}, {"method": MethodStatic, "companion": true},
		{"method": MethodSparseMeta, "companion": true},
	} {
		for _, size := range []int{8, 16, 32, 64, 128} {
			b.Run(fmt.Sprintf("%s/companion=%v/%d", set["method"], set["companion"], size),
				func(b *testing.B) {
					r := ScoreTextsRequest{Settings: set}
					for range len(text) / size {
						r.Texts = append(r.Texts, text[:size])
					}
					begun := processorNS(b)
					for b.Loop() {
						require.NoError(b, mg.ScoreTexts(background, Caller{}, r, ignore))
					}
					bytes := float64(b.N * len(r.Texts) * size)
					b.ReportMetric(float64(processorNS(b)-begun)/bytes, "cpu-ns/byte")
				})
		}
	}
}

// processorNS returns the processor time that the process has used, in nanoseconds.
func processorNS(t testing.TB) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
