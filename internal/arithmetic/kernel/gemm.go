package kernel

// parallelWork is the minimum number of multiply-adds in a product that uses several threads.
const parallelWork = 200_000

// MulNT sets C = A Bᵀ, or adds A Bᵀ to C if acc is set. The shapes are c (m,n), a (m,k), b (n,k). C
// must not share memory with A or B. MulNT panics if the shapes do not match.
func (x *Exec) MulNT(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Rows, n: b.Rows, k: a.Cols, transB: true, acc: acc}
	x.multiply("MulNT", b.Cols)
}

// MulNN sets C = A B, or adds A B to C if acc is set. The shapes are c (m,n), a (m,k), b (k,n). C
// must not share memory with A or B. MulNN panics if the shapes do not match.
func (x *Exec) MulNN(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Rows, n: b.Cols, k: a.Cols, acc: acc}
	x.multiply("MulNN", b.Rows)
}

// MulTN sets C = Aᵀ B, or adds Aᵀ B to C if acc is set. The shapes are c (m,n), a (k,m), b (k,n). C
// must not share memory with A or B. MulTN panics if the shapes do not match.
func (x *Exec) MulTN(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Cols, n: b.Cols, k: a.Rows, transA: true, acc: acc}
	x.multiply("MulTN", b.Rows)
}

// multiply computes x.product after a check of the shapes. name is the method's name, for panics.
// rightK is the inner dimension of the right operand.
func (x *Exec) multiply(name string, rightK int) {
	p := &x.product
	p.check(name, rightK)
	if p.m == 0 || p.n == 0 {
		return
	}
	if p.k == 0 {
		p.clear()
		return
	}
	threads := x.threads
	if p.m*p.n*p.k < parallelWork {
		threads = 1
	}
	if x.engine.arithmetic.Precision == BF16 {
		p.cutBF16(threads)
	} else {
		p.cut(threads, x.engine.micro.cols)
	}
	if pieces := p.rowPieces * p.colPieces; threads > 1 {
		x.Parallel(pieces, p)
	} else {
		for i := range pieces {
			p.Do(x, i)
		}
	}
	x.product = product{} // so that the caller's memory can be freed
}

// Do computes piece i of C.
func (p *product) Do(w *Exec, i int) {
	i0, i1, j0, j1 := p.piece(i)
	if w.engine.arithmetic.Precision == BF16 {
		w.engine.multiplyBF16(p, i0, i1, j0, j1)
	} else {
		w.engine.multiply(p, i0, i1, j0, j1)
	}
}
