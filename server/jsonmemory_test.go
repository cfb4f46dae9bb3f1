package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/server/limits"
)

// heapInUse runs the garbage collector and returns the bytes of live heap objects.
func heapInUse() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestJSONBodiesShareTheirMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	begin, end := `{"max_tokens":1,"prompt":"`, `"}`
	body := begin + strings.Repeat("a", limits.JSONBodyBytesMax-len(begin)-len(end)) + end
	// Frequent garbage collection keeps the measurement accurate, because objects allocated during
	// marking count as live.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	before := heapInUse()
	most, stop := uint64(0), make(chan struct{})
	var watch, all sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				now := heapInUse()
				most = max(most, now-min(now, before))
			}
		}
	})
	for range 16 {
		all.Go(func() {
			r := httptest.NewRequest("POST", "http://localhost/v1/sessions/s-0001/complete",
				strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.router.ServeHTTP(w, r)
			require.Contains(t, []int{http.StatusOK, http.StatusNotFound,
				http.StatusServiceUnavailable}, w.Code)
		})
	}
	all.Wait()
	close(stop)
	watch.Wait()
	t.Logf("at most %d MB in use; all requests may take %d", most>>20, limits.RequestMemoryMax>>20)
	require.LessOrEqual(t, most, uint64(2*limits.RequestMemoryMax), "and what was made since")
	require.NoError(t, s.Drain(t.Context()))
}

func TestSlowJSONBodiesKeepNobodyOut(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	post := func(ctx context.Context, body io.Reader) int {
		r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/sessions", body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		return w.Code
	}
	var all sync.WaitGroup
	var ends []*io.PipeWriter
	for range 64 {
		body, end := io.Pipe()
		ends = append(ends, end)
		all.Go(func() { post(t.Context(), body) })
		_, err := io.WriteString(end, `{"labels":{"a":"`+strings.Repeat("b",
			limits.JSONBodyBytesMax-100))
		require.NoError(t, err)
	}
	long := `{"labels":{"a":"` + strings.Repeat("b", limits.JSONBodyBytesMax-100) + `"}}`
	require.Equal(t, http.StatusUnprocessableEntity, post(t.Context(), strings.NewReader(long)),
		"a label is too long")
	require.Equal(t, http.StatusCreated, post(t.Context(), strings.NewReader(`{}`)))
	for _, end := range ends {
		end.Close()
	}
	all.Wait()
	require.NoError(t, s.Drain(t.Context()))
}
