package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/sparsemeta/metatrain"
)

// metaLearner has the weights phi of the meta-learners, and their optimizer. It sums the gradients
// of losses at the nodes of the compiled meta-learners. A step propagates the sums back through the
// networks.
type metaLearner struct {
	learner  *sparsemeta.Learner
	options  metatrain.Options
	trainer  *metatrain.Trainer
	schedule optim.Schedule
	sums     sparsemeta.NodeGradients
}

// newMetaLearner returns a model to train, and the optimizer of the model's meta-learners. The
// meta-learners are copies of base's, or new if base has none. Only the optimizer has compiled
// tables; the model has none. joint is nil in PhaseMeta.
func newMetaLearner(base *model.Model, o MetaOptions, joint *JointOptions, seed uint64,
	threads int) (*model.Model, *metaLearner, error) {
	l := &sparsemeta.Learner{Settings: o.Settings}
	if base.Learner != nil {
		l.Branches, l.Normal, l.Scale = base.Learner.Branches, base.Learner.Normal,
			base.Learner.Scale
		for _, networks := range base.Learner.Phi {
			l.Phi = append(l.Phi, slices.Clone(networks))
		}
	} else {
		var err error
		if l.Branches, err = branches(base, o); err != nil {
			return nil, nil, err
		}
		init := sparsemeta.InitHe()
		if largeOutput(o.Settings) {
			init = sparsemeta.InitSmall()
		}
		l.Init(init, kernel.Key(seed, useLearner))
		if o.Normal != nil {
			if err := l.Normalize(*o.Normal, base.Statistics); err != nil {
				return nil, nil, fmt.Errorf("train: option Meta.Normal: %w", err)
			}
		}
	}
	m := &model.Model{Name: base.Name, LM: base.LM, Tokenizer: base.Tokenizer, Learner: l,
		Chunk: o.Chunk, Arithmetic: base.Arithmetic,
		CompanionBytes: cmp.Or(o.CompanionBytes, base.CompanionBytes),
		CompanionAlone: o.CompanionAlone || base.CompanionAlone}
	meta := &metaLearner{learner: l, options: metatrain.Options{Workers: threads}}
	meta.schedule = optim.Schedule{Kind: o.Schedule, Peak: o.Rate, Final: o.Final, Steps: o.Steps}
	if joint != nil {
		meta.schedule.Steps = joint.Steps
	}
	var err error
	if meta.trainer, err = metatrain.New(l, meta.options); err != nil {
		return nil, nil, err
	}
	return m, meta, nil
}

func branches(m *model.Model, o MetaOptions) ([]sparsemeta.Branch, error) {
	b, err := model.Branches(m.LM.Layout, o.Branches)
	if err != nil {
		return nil, fmt.Errorf("train: option Meta.Branches: %w", err)
	}
	return b, nil
}

// reusable reports whether m's meta-learners have the branches, the input normalization and the
// number of banks in the options. An option that is not set fits any meta-learners.
func reusable(m *model.Model, o MetaOptions) (bool, error) {
	if len(o.Branches) > 0 {
		asked, err := branches(m, o)
		if err != nil || !slices.Equal(asked, m.Learner.Branches) {
			return false, err
		}
	}
	if n := m.Learner.Normal; o.Normal != nil && (n == nil || *n != *o.Normal) {
		return false, nil
	}
	return o.Settings.Gammas == nil || len(o.Settings.Gammas) == len(m.Learner.Phi), nil
}

func (m *metaLearner) close() error { return m.trainer.Close() }

func (m *metaLearner) tables() sparsemeta.Tables { return m.trainer.Tables() }

func (m *metaLearner) begin() { m.sums = m.tables().Gradients(m.sums) }

// gather adds the gradient of a chunk's loss, at the nodes of the tables, to the sums. s.Backward
// must have computed the loss gradient. If the parameter `every` is n > 1, the gradient is
// estimated from one in n fast weights.
func (m *metaLearner) gather(s *stream.Step, every int) {
	s.State.NodeGradient(s.Exec, m.tables(), m.learner.Settings.Out, s.Grads.Values, every, m.sums)
}

func (m *metaLearner) norm() float64 {
	squares := 0.0
	for _, bank := range m.sums {
		for _, branch := range bank {
			for _, v := range branch {
				squares += float64(v * v)
			}
		}
	}
	return math.Sqrt(squares)
}

// step makes the optimizer's step t for the meta-learners, and compiles the tables again. It
// returns the learning rate.
func (m *metaLearner) step(t int) (rate float64, err error) {
	rate = m.schedule.Rate(t)
	return rate, m.trainer.Step(m.sums, rate)
}

// describe returns a text about the trained weights. The parameter s is nil if the slow weights are
// frozen.
func (m *metaLearner) describe(s *slow) string {
	text := fmt.Sprintf("%s fast weights (branches: %d, banks: %d)",
		humanize.Comma(int64(m.learner.Size())), len(m.learner.Branches), len(m.learner.Phi))
	if s != nil {
		text = fmt.Sprintf("%s slow and %s", humanize.Comma(int64(len(s.grads.Values))), text)
	}
	return text
}

func (m *metaLearner) arrays() []array {
	var all []array
	for bank, networks := range m.learner.Phi {
		for i := range networks {
			all = append(all, array{fmt.Sprintf("phi.%d.%s", bank, m.learner.Branches[i].Name),
				networks[i][:]})
		}
	}
	return all
}

func (m *metaLearner) save(c *checkpoint) {
	c.putAll(m.arrays())
	state := m.trainer.State()
	c.put64("solver.mean", state.Mean)
	c.put64("solver.variance", state.Variance)
}

// load restores phi and the state of the optimizer, which has made the given number of steps.
func (m *metaLearner) load(c *checkpoint, steps int) {
	c.getAll(m.arrays())
	state := metatrain.SolverState{Iteration: steps}
	if steps > 0 {
		state.Mean = make([]float64,
			len(m.learner.Phi)*len(m.learner.Branches)*sparsemeta.NetworkSize)
		state.Variance = make([]float64, len(state.Mean))
		c.get64("solver.mean", state.Mean)
		c.get64("solver.variance", state.Variance)
	}
	if c.err != nil {
		return
	}
	trainer, err := metatrain.New(m.learner, m.options)
	if err == nil {
		err = trainer.Restore(state)
	}
	if err != nil {
		c.failWith(err)
		return
	}
	c.failWith(m.trainer.Close())
	m.trainer = trainer
}
