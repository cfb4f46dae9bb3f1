package sparsemeta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lmserve/lmserve/internal/kernel"
)

// BenchmarkUpdate is the update after a chunk; gradients are spread log-normally
// about 1e-4, as a trained model's are.
func BenchmarkUpdate(b *testing.B) {
	for _, banks := range []int{1, 2} {
		for _, p := range []float64{0.05, 0.5, 1} {
			for _, traced := range []bool{false, true} {
				b.Run(fmt.Sprintf("banks=%d/p=%v/traced=%v", banks, p, traced), func(b *testing.B) {
					benchmarkUpdate(b, banks, p, traced)
				})
			}
		}
	}
}

func benchmarkUpdate(b *testing.B, banks int, p float64, traced bool) {
	l, g := benchLearner(banks)
	l.Settings.P = p
	tables := l.Compile()
	s := NewState(l.Branches, banks, 1)
	if traced {
		s.Trace()
	}
	x := kernel.NewExec(1)
	defer x.Close()
	for b.Loop() {
		s.Update(x, tables, l.Settings, nil, g)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g)), "ns/element")
}

// BenchmarkNodeGradient is the gradient's way to the nodes, all elements written.
func BenchmarkNodeGradient(b *testing.B) {
	l, g := benchLearner(1)
	l.Settings.P = 1
	tables := l.Compile()
	s := NewState(l.Branches, 1, 1)
	s.Trace()
	x := kernel.NewExec(1)
	defer x.Close()
	s.Update(x, tables, l.Settings, nil, g)
	dv := tables.Gradients(nil)
	for b.Loop() {
		s.NodeGradient(x, tables, l.Settings.Out, g, dv)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g)), "ns/element")
}

func BenchmarkCompile(b *testing.B) {
	l, _ := benchLearner(1)
	t := new(Table)
	for b.Loop() {
		t.Compile(&l.Phi[0][0])
	}
}

func benchLearner(banks int) (*Learner, []float32) {
	l := &Learner{Settings: TwoBankSettings()}
	l.Settings.Gammas = l.Settings.Gammas[:banks]
	for i := range 17 {
		l.Branches = append(l.Branches, Branch{Name: fmt.Sprint(i), Size: 36_000 + i})
	}
	l.Init(InitHe(), 1)
	rng := rand.New(rand.NewPCG(1, 2))
	g := make([]float32, l.Size())
	for i := range g {
		g[i] = float32(math.Exp(rng.NormFloat64()*2-9) * (2*float64(rng.IntN(2)) - 1))
	}
	return l, g
}
