package conformance

import (
	"fmt"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/sparsemeta/metatrain"
)

// adaptation is the part of a file that describes fast weights: the model with its meta-learners,
// and the update rule.
type adaptation struct {
	names []string // branch names in the file: names of weights without ".weight"
	model *model.Model
	rule  stream.Rule
}

func (r *replay) adaptation() *adaptation {
	r.constant("preprocess_p", 7)
	r.constant("leaky_slope", 0.01)
	out := 1.0
	if _, ok := r.file.Metadata["out_scale"]; ok {
		out = r.float("out_scale")
	}
	l := &sparsemeta.Learner{}
	a := &adaptation{names: strings.Split(r.file.Metadata["branches"], ",")}
	l.Settings = sparsemeta.Settings{Gammas: []float32{float32(r.float("gamma"))},
		Beta1: float32(r.float("beta1")),
		Beta2: float32(r.float("beta2")), P: r.float("p"), Out: float32(out)}
	networks := make([]sparsemeta.Network, len(a.names))
	for k, name := range a.names {
		weight := name + ".weight"
		i := r.model.Layout.Index(weight)
		if i < 0 {
			r.fail("metadata branches: %q is not a weight of the model", name)
			return a
		}
		l.Branches = append(l.Branches, sparsemeta.Branch{Name: weight,
			Size: r.model.Layout.Tensors[i].Size})
		for _, part := range sparsemeta.Parts() {
			copy(networks[k][part.Lo:part.Hi], r.floats("meta."+name+"."+part.Name,
				part.Hi-part.Lo))
		}
	}
	if r.err != nil {
		return a
	}
	l.Phi = [][]sparsemeta.Network{networks}
	a.model = &model.Model{LM: r.model, Learner: l}
	a.rule = stream.Rule{Learner: l, Tables: l.Compile(), Settings: l.Settings,
		Precision: stream.TrainingPrecision}
	return a
}

func (r *replay) newAdaptiveStep(a *adaptation, batch, length int) stream.Step {
	step := r.newStep(batch, length)
	step.Fast, step.Grads = stream.NewArena(a.model), stream.NewArena(a.model)
	step.Rule, step.State = a.rule, a.rule.NewState(0)
	return step
}

// eachBranch calls do for each branch, with its name in the file and its range lo:hi in an arena.
func (a *adaptation) eachBranch(do func(name string, lo, hi int)) {
	off := 0
	for k, b := range a.model.Learner.Branches {
		do(a.names[k], off, off+b.Size)
		off += b.Size
	}
}

// online replays the kinds sparsemeta and metaonline: the updates of a serving stream, with the
// file's masks. For metaonline it also checks the meta-gradient of every step before the update.
func (r *replay) online() {
	steps, length, batch := r.int("steps"), r.int("chunk_len"), r.int("batch")
	if r.err == nil && batch != 1 {
		r.fail("metadata batch is %d, expected 1", batch)
	}
	r.roomFor(batch, length)
	a := r.adaptation()
	if r.err != nil {
		return
	}
	meta := r.file.Metadata["kind"] == "metaonline"
	if meta {
		l := a.model.Learner
		l.Scale = make([]float32, l.Size())
		a.eachBranch(func(name string, lo, hi int) {
			copy(l.Scale[lo:hi], r.floats("scale."+name,
				hi-lo))
		})
		a.rule.Trace = true
	} else {
		r.probe(a)
	}
	step, top := r.newAdaptiveStep(a, 1, length), r.newTop(1)
	for i := range steps {
		prefix := fmt.Sprintf("step%d", i)
		target := r.score(prefix, &step)
		if r.err != nil {
			return
		}
		step.Backward(target)
		r.branchGradients(prefix, a, &step)
		if meta {
			r.metaGradients(prefix+".grad.meta.", a, &step)
		}
		r.write(prefix, a, &step, true)
		step.Remember()
		top.remember(&step)
		if !meta || r.has(prefix+".mem.0") {
			r.memories(prefix, step.Memory, top)
		}
		if r.err != nil {
			return
		}
	}
}

// window replays the kind metatrain. The first k-1 chunks write fast weights. The last chunk gives
// the gradients of the slow weights and of the meta-learners.
func (r *replay) window() {
	k, length, last, batch := r.int("k"), r.int("chunk_len"), r.int("gradient_chunk_len"),
		r.int("batch")
	r.roomFor(batch, max(length, last))
	a := r.adaptation()
	if r.err != nil {
		return
	}
	a.rule.Trace = true
	writing := r.newAdaptiveStep(a, batch, length)
	for i := range k - 1 {
		prefix := fmt.Sprintf("step%d", i)
		target := r.score(prefix, &writing)
		if r.err != nil {
			return
		}
		writing.Backward(target)
		r.branchGradients(prefix, a, &writing)
		r.write(prefix, a, &writing, false)
		writing.Remember()
		if r.err != nil {
			return
		}
	}
	learning := writing
	learning.Segment = r.newStep(batch, last).Segment
	target := r.score(fmt.Sprintf("step%d", k-1), &learning)
	if r.err != nil {
		return
	}
	r.slowGradients(&learning, target)
	r.metaGradients("grad.meta.", a, &learning)
}

func (r *replay) branchGradients(prefix string, a *adaptation, step *stream.Step) {
	a.eachBranch(func(name string, lo, hi int) {
		r.close(prefix+".grad."+name,
			step.Grads.Values[lo:hi])
	})
}

// write updates the fast weights with the file's masks, and compares I and M with the file's
// values. The replay continues with the file's values.
func (r *replay) write(prefix string, a *adaptation, step *stream.Step, withI bool) {
	masks := make([]uint8, len(step.Grads.Values))
	a.eachBranch(func(name string, lo, hi int) {
		t, ok := r.file.Tensor(prefix + ".mask." + name)
		if !ok || len(t.Data) != hi-lo {
			r.fail("tensor %q is missing, or does not have %d elements of type "+
				"U8", prefix+".mask."+name,
				hi-lo)
			return
		}
		copy(masks[lo:hi], t.Data)
	})
	if r.err != nil {
		return
	}
	step.Masks = [][]uint8{masks}
	step.Update()
	a.eachBranch(func(name string, lo, hi int) {
		if withI {
			r.close(prefix+".I."+name, step.State.I[0].F32[lo:hi])
			r.adopt(prefix+".I."+name, step.State.I[0].F32[lo:hi])
		}
		r.close(prefix+".M."+name, step.State.M[0].F32[lo:hi])
		r.adopt(prefix+".M."+name, step.State.M[0].F32[lo:hi])
	})
	step.State.Sum(step.Exec.Vectors, step.Fast.Values)
}

// metaGradients compares dL/dphi, the gradients of the meta-learners' weights. It computes the
// gradients at the nodes of the tables, and backpropagates them through the networks.
func (r *replay) metaGradients(prefix string, a *adaptation, step *stream.Step) {
	trainer, err := metatrain.New(step.Learner, metatrain.Options{})
	if err != nil {
		r.fail("%s: %w", prefix, err)
		return
	}
	defer trainer.Close()
	dv := step.Tables.Gradients(nil)
	step.State.NodeGradient(r.exec, step.Tables, step.Settings.Out, step.Grads.Values, 1, dv)
	dphi, err := trainer.Gradient(dv)
	if err != nil {
		r.fail("%s: %w", prefix, err)
		return
	}
	for k, name := range a.names {
		for _, part := range sparsemeta.Parts() {
			r.close(prefix+name+"."+part.Name, dphi[0][k][part.Lo:part.Hi])
		}
	}
}

// probe compares preprocessed inputs and outputs of the meta-learners, for the file's list of
// inputs.
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
	for k, name := range a.names {
		if !r.has("probe.g." + name) {
			continue // a file may contain only some meta-learners
		}
		for i, v := range x {
			g[i] = a.rule.Tables[0][k].At(v)
		}
		r.close("probe.g."+name, g)
	}
}
