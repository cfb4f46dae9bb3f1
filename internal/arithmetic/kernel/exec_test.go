package kernel

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type visits struct {
	count []atomic.Int32
	a, b  Matrix
	c     []Matrix
}

func (v *visits) Do(w *Exec, i int) {
	v.count[i].Add(1)
	if w.Threads() != 1 {
		panic("a task's Exec has more than one thread")
	}
	if v.c != nil {
		w.MulTN(v.c[i], v.a, v.b, false)
	}
}

func TestParallelDoesEachIndexOnce(t *testing.T) {
	x := NewExec(4)
	defer x.Close()
	v := visits{count: make([]atomic.Int32, 97)}
	// In this number of rounds, two threads sometimes claim indexes at the same moment.
	for round := range 4000 {
		x.SetThreads(1 + round%4)
		n := round * round % len(v.count)
		x.Parallel(n, &v)
		for i := range v.count {
			want := int32(0)
			if i < n {
				want = 1
			}
			if got := v.count[i].Swap(0); got != want {
				t.Fatalf("index %d of %d done %d times", i, n, got)
			}
		}
		if round%500 == 0 {
			time.Sleep(time.Millisecond) // gives the other threads time to park
		}
	}
}

func TestTasksMayCallProducts(t *testing.T) {
	x := NewExec(3)
	defer x.Close()
	v := visits{count: make([]atomic.Int32, 20), a: Mat(normal(30*7), 30, 7),
		b: Mat(normal(30*5), 30, 5)}
	for range v.count {
		v.c = append(v.c, Mat(make([]float32, 7*5), 7, 5))
	}
	x.Parallel(len(v.c), &v)
	want := multiply(x, 2, v.a.transposed(), v.b)
	for _, c := range v.c {
		requireSameBits(t, want.Data, c.Data)
	}
}

// stumble is a task that panics on the caller's thread while another thread is running Do.
type stumble struct {
	caller   *Exec
	entered  chan struct{}
	finished atomic.Bool
}

func (s *stumble) Do(w *Exec, _ int) {
	if w == s.caller {
		<-s.entered
		panic("stumble")
	}
	close(s.entered)
	time.Sleep(5 * time.Millisecond)
	s.finished.Store(true)
}

func TestPanicOfATaskLeavesNobodyAtWork(t *testing.T) {
	x := NewExec(2)
	defer x.Close()
	s := stumble{caller: x.pool.workers[0].exec, entered: make(chan struct{})}
	require.PanicsWithValue(t, "stumble", func() { x.Parallel(2, &s) })
	require.True(t, s.finished.Load())
	v := visits{count: make([]atomic.Int32, 5)}
	x.Parallel(5, &v)
	for i := range v.count {
		require.EqualValues(t, 1, v.count[i].Load())
	}
}

func TestCloseTwice(t *testing.T) {
	x := NewExec(2)
	x.Close()
	x.Close()
	require.Equal(t, 1, x.Threads())
}

func TestWarmOperationsDoNotAllocate(t *testing.T) {
	a, b, c := Mat(normal(70*70), 70, 70), Mat(normal(70*70), 70, 70), Mat(normal(70*70), 70, 70)
	b.Add = normal(70 * 70)
	require.Greater(t, 70*70*70, parallelWork)
	v := visits{count: make([]atomic.Int32, 9)}
	row := normal(100)
	eachKernel(t, 3, func(t *testing.T, x *Exec) {
		for name, f := range map[string]func(){
			"MulNN": func() { x.MulNN(c, a, b, false) }, "MulNT": func() { x.MulNT(c, a, b, true) },
			"MulTN":     func() { x.MulTN(c, a, b, true) },
			"Parallel":  func() { x.Parallel(9, &v) },
			"Softmax":   func() { x.Softmax(row, 0.5) },
			"LogSumExp": func() { x.LogSumExp(row) },
			"Key":       func() { _ = Bits(Key(1, 2, 3), 4) },
		} {
			f()
			require.Zero(t, testing.AllocsPerRun(100, f), name)
		}
	})
}
