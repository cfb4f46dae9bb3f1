package conformance

import (
	"fmt"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/sparsemeta/metatrain"
	"github.com/lmserve/lmserve/txl"
)

// adopt replaces a result that has been compared by the file's own, so that
// each step is checked from the reference's state. The loop gradient -> fast
// weights -> gradient multiplies a difference by up to ten a step (g has slopes
// of several hundred near zero): left alone, one unit in the last place of the
// slow weights becomes more than the tolerance within five steps.
func (r *replay) adopt(name string, state []float32) { copy(state, r.floats(name, len(state))) }

// online replays kinds sparsemeta and metaonline: the serving loop with given
// masks and, for metaonline, the meta-gradient of every step before its write.
func (r *replay) online() {
	steps, length, batch := r.int("steps"), r.int("chunk_len"), r.int("batch")
	if r.err == nil && batch != 1 {
		r.fail("metadata batch is %d, expected 1", batch)
	}
	a := r.adaptation()
	if r.err != nil {
		return
	}
	meta := r.file.Metadata["kind"] == "metaonline"
	if meta {
		r.readScale(a)
		a.trace()
	} else {
		r.probe(a)
	}
	seg, mem, top := txl.NewSegment(r.model.Config, 1, length), txl.NewMemory(r.model.Config, 1), r.newTop(1)
	nll := make([]float32, length)
	for i := range steps {
		prefix := fmt.Sprintf("step%d", i)
		target := r.tokens(prefix+".target", length)
		seg.Begin(r.exec, r.model, a.fast, mem)
		seg.Extend(r.exec, r.tokens(prefix+".input", length))
		seg.NLL(0, target, nll)
		r.near(prefix+".nll", nll)
		seg.Backward(r.exec, target, a.wanted)
		a.eachBranch(func(name string, lo, hi int) { r.close(prefix+".grad."+name, a.grads[lo:hi]) })
		if meta {
			r.metaGradients(prefix+".grad.meta.", a)
		}
		r.write(prefix, a, true)
		seg.Remember(mem)
		top.remember(seg, mem)
		if !meta || r.has(prefix+".mem.0") {
			r.memories(prefix, mem, top)
		}
		if r.err != nil {
			return
		}
	}
}

// window replays kind metatrain: k-1 writes, then one gradient of everything.
func (r *replay) window() {
	k, length, last, batch := r.int("k"), r.int("chunk_len"), r.int("gradient_chunk_len"), r.int("batch")
	a := r.adaptation()
	if r.err != nil {
		return
	}
	a.trace()
	mem := txl.NewMemory(r.model.Config, batch)
	nll := make([]float32, max(length, last)*batch)
	for i := range k {
		prefix := fmt.Sprintf("step%d", i)
		n := length
		if i == k-1 {
			n = last
		}
		seg := txl.NewSegment(r.model.Config, batch, n)
		target := r.tokens(prefix+".target", n*batch)
		seg.Begin(r.exec, r.model, a.fast, mem)
		seg.Extend(r.exec, r.tokens(prefix+".input", n*batch))
		seg.NLL(0, target, nll[:n*batch])
		r.near(prefix+".nll", nll[:n*batch])
		if i < k-1 {
			seg.Backward(r.exec, target, a.wanted)
			a.eachBranch(func(name string, lo, hi int) { r.close(prefix+".grad."+name, a.grads[lo:hi]) })
			r.write(prefix, a, false)
			seg.Remember(mem)
		} else {
			slow := r.slowGradients(seg, target)
			a.eachBranch(func(name string, lo, hi int) { copy(a.grads[lo:hi], slow[r.model.Layout.Index(name+".weight")]) })
			r.metaGradients("grad.meta.", a)
		}
		if r.err != nil {
			return
		}
	}
}

// trace remembers each entry's last input, which the meta-gradient needs.
func (a *adaptation) trace() { a.state.Trace() }

func (r *replay) has(name string) bool {
	_, ok := r.file.Tensor(name)
	return ok
}

// write updates the fast weights with the file's masks, compares I and M, and
// goes on from the file's.
func (r *replay) write(prefix string, a *adaptation, withI bool) {
	masks := make([]uint8, len(a.grads))
	a.eachBranch(func(name string, lo, hi int) {
		t, ok := r.file.Tensor(prefix + ".mask." + name)
		if !ok || len(t.Data) != hi-lo {
			r.fail("tensor %q is missing or has not %d elements of type U8", prefix+".mask."+name, hi-lo)
			return
		}
		copy(masks[lo:hi], t.Data)
	})
	if r.err != nil {
		return
	}
	a.state.UpdateMasked(r.exec, a.tables, a.learner.Settings, a.learner.Scale, a.grads, a.sum, [][]uint8{masks})
	a.eachBranch(func(name string, lo, hi int) {
		if withI {
			r.close(prefix+".I."+name, a.state.I[0].F32[lo:hi])
			r.adopt(prefix+".I."+name, a.state.I[0].F32[lo:hi])
		}
		r.close(prefix+".M."+name, a.state.M[0].F32[lo:hi])
		r.adopt(prefix+".M."+name, a.state.M[0].F32[lo:hi])
	})
	a.state.Sum(r.exec.Vectors, a.sum)
}

func (r *replay) readScale(a *adaptation) {
	a.learner.Scale = make([]float32, len(a.grads))
	a.eachBranch(func(name string, lo, hi int) { copy(a.learner.Scale[lo:hi], r.floats("scale."+name, hi-lo)) })
}

// metaGradients compares dL/dphi: node gradients of all written entries, and
// the networks' backward at the nodes.
func (r *replay) metaGradients(prefix string, a *adaptation) {
	trainer, err := metatrain.New(a.learner, metatrain.Options{})
	if err != nil {
		r.fail("%s: %w", prefix, err)
		return
	}
	defer trainer.Close()
	dv := a.tables.Gradients(nil)
	a.state.NodeGradient(r.exec, a.tables, a.learner.Settings.Out, a.grads, 1, dv)
	dphi, err := trainer.Gradient(dv)
	if err != nil {
		r.fail("%s: %w", prefix, err)
		return
	}
	for k, b := range a.learner.Branches {
		for _, part := range sparsemeta.Parts() {
			r.close(prefix+b.Name+"."+part.Name, dphi[0][k][part.Lo:part.Hi])
		}
	}
}

// probe compares preprocessing and meta-learners on the file's list of inputs.
func (r *replay) probe(a *adaptation) {
	t, ok := r.file.Tensor("probe.x")
	if !ok {
		return
	}
	n := len(t.Data) / 4
	x := r.floats("probe.x", n)
	pre := make([]float32, 0, 2*n)
	for _, v := range x {
		magnitude, sign := sparsemeta.Preprocess(float64(v))
		pre = append(pre, float32(magnitude), float32(sign))
	}
	r.near("probe.pre", pre)
	g := make([]float32, n)
	for k, b := range a.learner.Branches {
		if !r.has("probe.g." + b.Name) {
			continue // a file may probe some of its meta-learners
		}
		for i, v := range x {
			g[i] = a.tables[0][k].At(v)
		}
		r.close("probe.g."+b.Name, g)
	}
}
