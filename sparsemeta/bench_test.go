package sparsemeta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// BenchmarkUpdate compares the update after a chunk with the speed of the memory. The metric GB/s
// counts the bytes that one pass over G, I, M and the fast weights reads and writes. The metrics
// of-stream and of-cache divide GB/s by the speed of y += a x on the same number of threads. For
// of-stream, the arrays of y += a x are far larger than the caches; for of-cache, they have the
// state's size.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct {
		name     string
		branches []Branch
		banks    int
		p        float64
		traced   bool
		threads  int
	}{
		{"small,p=0.5", small(), 2, 0.5, false, 1},
		{"small,p=0.05", small(), 2, 0.05, false, 1},
		{"small,p=0.5,traced", small(), 2, 0.5, true, 1},
		{"small,p=0.5,threads=2", small(), 2, 0.5, false, 2},
		{"enwik8,p=0.5", enwik8(), 1, 0.5, false, 1},
		{"enwik8,p=0.05", enwik8(), 1, 0.05, false, 1},
		{"enwik8,p=0.5,traced", enwik8(), 1, 0.5, true, 1},
		{"enwik8,p=0.5,threads=2", enwik8(), 1, 0.5, false, 2},
		{"enwik8,p=0.5,banks=2", enwik8(), 2, 0.5, false, 1},
	} {
		for _, held := range []kernel.Precision{kernel.Float32, kernel.BF16} {
			b.Run(c.name+","+string(held), func(b *testing.B) {
				benchmarkUpdate(b, c.branches, c.banks, held, c.p, c.traced, c.threads)
			})
		}
	}
}

// small returns branches of the default model's size: 1.28 M elements in 30 branches.
func small() (branches []Branch) {
	for i := range 30 {
		branches = append(branches, Branch{Name: fmt.Sprint(i), Size: 42_667})
	}
	return branches
}

// enwik8 returns the branches of the character model in the Sparse-MetaNet paper.
func enwik8() []Branch {
	branches := []Branch{{"emb", 204 * 512}}
	for range 12 {
		branches = append(branches, Branch{"qkv", 1536 * 512}, Branch{"r", 512 * 512},
			Branch{"o", 512 * 512}, Branch{"ff", 2048 * 512})
	}
	return branches
}

// steps is the number of different gradients in a benchmark. The gradients are overlapping parts of
// one array.
const steps = 1024

func benchmarkUpdate(b *testing.B, branches []Branch, banks int, held kernel.Precision, p float64,
	traced bool, threads int) {
	l := benchLearner(branches, banks)
	l.Settings.P = p
	size := l.Size()
	g := benchGradients(size + 16*steps)
	tables, s, fast := l.Compile(), NewState(l.Branches, banks, 1, held), make([]float32, size)
	bytes := 4 + 2*int(s.Bytes())/size + 8
	if traced {
		s.Trace()
		bytes += 8 * banks
	}
	x := exec(b, threads)
	// The first update makes the system map all pages of memory.
	s.Update(x, tables, l.Settings, nil, g[:size], fast)
	step := 0
	for b.Loop() {
		from := 16 * (step % steps)
		s.Update(x, tables, l.Settings, nil, g[from:from+size], fast)
		step++
	}
	ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(size)
	rate := float64(bytes) / ns
	b.ReportMetric(ns, "ns/element")
	b.ReportMetric(rate, "GB/s")
	b.ReportMetric(rate/streamRate(x, 64<<20), "of-stream")
	b.ReportMetric(rate/streamRate(x, size*bytes/16), "of-cache")
}

// BenchmarkSum measures the cost of switching a worker to another stream. BenchmarkRMS measures the
// cost of reporting the RMS of the fast weights after a chunk.
func BenchmarkSum(b *testing.B) {
	s := NewState(small(), 2, 1, kernel.BF16)
	fast, v := make([]float32, s.Size()), kernel.Arithmetic{}.Vectors()
	for b.Loop() {
		s.Sum(v, fast)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Size()), "ns/element")
}

func BenchmarkRMS(b *testing.B) {
	s, v := NewState(small(), 2, 1, kernel.BF16), kernel.Arithmetic{}.Vectors()
	for b.Loop() {
		s.RMS(v)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Size()), "ns/element")
}

func BenchmarkDynamic(b *testing.B) {
	branches := small()
	g := benchGradients(arenaSize(branches))
	rms, err := NewStatistics(branches, testRMS(branches))
	if err != nil {
		b.Fatal(err)
	}
	for name, d := range map[string]*Dynamic{"SGD": NewDynamic(branches, SGDSettings(), nil),
		"RMS": NewDynamic(branches, RMSSettings(), rms)} {
		b.Run(name, func(b *testing.B) {
			x := exec(b, 1)
			for b.Loop() {
				d.Update(x, g)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g)),
				"ns/element")
		})
	}
}

func BenchmarkCache(b *testing.B) {
	const n, width = 128, 160
	c := NewCache(DefaultCacheSettings(), width)
	hidden := benchGradients(c.set.Size * width)
	c.Append(hidden, make([]int32, c.set.Size))
	x, next, nll := exec(b, 1), make([]int32, n), make([]float32, n)
	for b.Loop() {
		c.Mix(x, hidden[:n*width], next, nll)
		c.Append(hidden[:n*width], next)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/position")
}

// streamRate returns the median speed of y += a x over some passes, in bytes per nanosecond. Each
// array has n elements.
func streamRate(x *kernel.Exec, n int) float64 {
	t := stream{make([]float32, n), make([]float32, n)}
	fill(t.x, 1)
	var passes []float64
	for total := 0; total < 1<<29 || len(passes) < 7; total += 8 * n {
		start := time.Now()
		x.Parallel(n/streamBlock, &t)
		passes = append(passes,
			float64(12*(n/streamBlock*streamBlock))/float64(time.Since(start).Nanoseconds()))
	}
	slices.Sort(passes)
	return passes[len(passes)/2]
}

const streamBlock = 1 << 12

type stream struct{ x, y []float32 }

func (t *stream) Do(w *kernel.Exec, i int) {
	lo, hi := i*streamBlock, (i+1)*streamBlock
	w.Axpy(t.y[lo:hi], 0.5, t.x[lo:hi])
}

func BenchmarkNodeGradient(b *testing.B) {
	l := benchLearner(small(), 1)
	l.Settings.P = 1
	g := benchGradients(l.Size())
	tables := l.Compile()
	s := NewState(l.Branches, 1, 1, kernel.Float32)
	s.Trace()
	x := exec(b, 1)
	s.Update(x, tables, l.Settings, nil, g, make([]float32, len(g)))
	dv := tables.Gradients(nil)
	for b.Loop() {
		s.NodeGradient(x, tables, l.Settings.Out, g, 1, dv)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g)), "ns/element")
}

func BenchmarkCompile(b *testing.B) {
	l := benchLearner(small(), 1)
	t := new(Table)
	for b.Loop() {
		t.Compile(&l.Phi[0][0])
	}
}

func benchLearner(branches []Branch, banks int) *Learner {
	l := &Learner{Branches: branches, Settings: TwoBankSettings()}
	l.Settings.Gammas = l.Settings.Gammas[:banks]
	l.Init(InitHe(), 1)
	return l
}

// benchGradients returns log-normal gradients of random sign around 1e-4. As in a trained model, I
// and x then lie in the first octaves of a table's grid.
func benchGradients(size int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	g := make([]float32, size)
	for i := range g {
		g[i] = float32(math.Exp(rng.NormFloat64()-9) * (2*float64(rng.IntN(2)) - 1))
	}
	return g
}
