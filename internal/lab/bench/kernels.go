package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
)

// weight is a matrix of the model in the products of a chunk: y (rows, out) = x (rows, in) Wᵀ.
type weight struct {
	name          string
	rows, out, in int
	inner         bool // whether backward needs the gradient of x
	few           bool // with few rows, reading the matrix takes longer than multiplying
}

func (b *bench) weights() []weight {
	s := b.segment()
	D, hd, n, m := s.DModel, s.heads(), s.rows, s.memory
	all := []weight{
		{"qkv_net", n, 3 * hd, D, true, false},
		{"qkv_net, memory", m, 2 * hd, D, false, false},
		{"r_net", m + n, hd, D, false, false},
		{"o_net", n, D, hd, true, false},
		{"CoreNet.0", n, s.inner(), D, true, false},
		{"CoreNet.3", n, D, s.DInner, true, false},
	}
	if m == 0 {
		all = append(all[:1], all[2:]...)
	}
	for i, p := range s.parts() {
		name := "softmax"
		if i > 0 {
			name = fmt.Sprintf("softmax, tail %d", i)
		}
		all = append(all, weight{name, int(math.Ceil(p.targets)), p.columns, p.Width, true, i > 0})
	}
	return all
}

func (b *bench) kernels() {
	for _, threads := range b.threadCounts() {
		for _, w := range b.weights() {
			b.forwardProducts(threads, w)
		}
		for _, w := range b.weights() {
			b.backwardProducts(threads, w)
		}
		if b.model.Learner != nil {
			b.update(threads)
		}
	}
	b.attention()
}

func (b *bench) multiply(threads int, what string, m, n, k int, do func()) {
	b.measure(threads, productTask(what, m, n, k), do)
}

func productTask(what string, m, n, k int) task {
	t := task{section: Kernels, what: what, shape: fmt.Sprintf("%dx%dx%d", m, n, k)}
	return t.ofFlops(product(m, n, k))
}

// weigh measures the function `do`, a product with the weight w or a product for the gradient of w.
func (b *bench) weigh(threads int, w weight, how string, m, n, k int, do func()) {
	t := productTask(w.name+"  "+how, m, n, k)
	if w.few {
		t = t.reading(4 * float64(w.out*w.in))
	}
	b.measure(threads, t, do)
}

// forwardProducts measures y = x Wᵀ, and y = x (W+M)ᵀ with fast weights M.
func (b *bench) forwardProducts(threads int, w weight) {
	x, mat := random(w.rows, w.in), random(w.out, w.in)
	y := zeros(w.rows, w.out)
	b.weigh(threads, w, "x Wᵀ", w.rows, w.out, w.in, func() { b.x.MulNT(y, x, mat, false) })
	mat.Add = random(w.out, w.in).Data
	b.weigh(threads, w, "x (W+M)ᵀ", w.rows, w.out, w.in, func() { b.x.MulNT(y, x, mat, false) })
}

// backwardProducts measures dx = dy (W+M) and dW = dyᵀ x.
func (b *bench) backwardProducts(threads int, w weight) {
	dy := random(w.rows, w.out)
	if w.inner {
		dx, mat := zeros(w.rows, w.in), random(w.out, w.in)
		mat.Add = random(w.out, w.in).Data
		b.weigh(threads, w, "dy (W+M)", w.rows, w.in, w.out,
			func() { b.x.MulNN(dx, dy, mat, false) })
	}
	x, dw := random(w.rows, w.in), zeros(w.out, w.in)
	b.weigh(threads, w, "dyᵀ x", w.out, w.in, w.rows, func() { b.x.MulTN(dw, dy, x, false) })
}

const headProducts = 4

// attention measures the products and the softmax of one attention head, on one thread.
func (b *bench) attention() {
	s := b.segment()
	d, hd, n, keys := s.DHead, s.heads(), s.rows, s.rows+s.memory
	// each row holds all heads, and keys and values share their rows
	q := random(n, hd).ColRange(0, d)
	k, v := random(keys, 2*hd).ColRange(0, d), random(keys, 2*hd).ColRange(hd, hd+d)
	prob, dk := random(n, keys), zeros(keys, 2*hd).ColRange(0, d)
	out := zeros(n, hd).ColRange(0, d)
	b.multiply(1, "a head  q kᵀ", n, keys, d, func() { b.x.MulNT(prob, q, k, false) })
	b.multiply(1, "a head  p v", n, d, keys, func() { b.x.MulNN(out, prob, v, false) })
	b.multiply(1, "a head  dpᵀ q", keys, d, n, func() { b.x.MulTN(dk, prob, q, false) })

	t := task{section: Kernels, what: "a head  softmax", shape: fmt.Sprintf("%dx%d", n, keys)}
	b.measure(1, t.ofStream(8*float64(n*keys)), func() {
		for i := range n {
			b.x.Softmax(prob.Data[i*keys:(i+1)*keys], float32(1/math.Sqrt(float64(d))))
		}
	})
}

// servingRule returns the update rule of a session with the model's settings. It has the precision
// of a server's fast weights.
func servingRule(m *model.Model) stream.Rule {
	return stream.Rule{Learner: m.Learner, Tables: m.Tables, Settings: m.Learner.Settings,
		Precision: stream.ServingPrecision}
}

// updateBytes returns the number of bytes that an update of the fast weights moves. For each
// element it reads the gradient, and the scale if there is one. For each bank it reads and writes I
// and M, two bytes each. It also writes the sum of the banks, for which the cache first loads the
// old bytes.
func updateBytes(l *sparsemeta.Learner) float64 {
	element := 4 + 8*len(l.Settings.Gammas) + 8
	if l.Scale != nil {
		element += 4
	}
	return float64(element * l.Size())
}

// update measures an update of the fast weights. The sizes of the gradients are log-normal, like
// those of a trained model.
func (b *bench) update(threads int) {
	l := b.model.Learner
	rule := servingRule(b.model)
	state := rule.NewState(1)
	g, fast := make([]float32, l.Size()), make([]float32, l.Size())
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range g {
		g[i] = float32(math.Exp(rng.NormFloat64()*2-9) * (2*float64(rng.IntN(2)) - 1))
	}
	t := updateTask(l)
	t.section, t.what = Kernels, "update"
	b.measure(threads, t, func() {
		state.Update(b.x, b.model.Tables, l.Settings, l.Scale, g, fast)
	})
}

func updateTask(l *sparsemeta.Learner) task {
	banks := "1 bank"
	if n := len(l.Settings.Gammas); n > 1 {
		banks = fmt.Sprintf("%d banks", n)
	}
	return task{shape: fmt.Sprintf("%d, %s", l.Size(), banks)}.ofStream(updateBytes(l))
}

func zeros(rows, cols int) kernel.Matrix {
	return kernel.Mat(make([]float32, rows*cols), rows,
		cols)
}

func random(rows, cols int) kernel.Matrix {
	m := zeros(rows, cols)
	rng := rand.New(rand.NewPCG(3, uint64(rows*cols)))
	for i := range m.Data {
		m.Data[i] = rng.Float32() - 0.5
	}
	return m
}
