package train

import (
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/txl"
)

// slow is the optimizer of the slow weights, with its options and gradients.
type slow struct {
	options  SlowOptions
	schedule optim.Schedule
	seed     uint64
	lm       *txl.Model
	opt      optim.Optimizer
	grads    stream.Arena
}

func newSlow(lm *txl.Model, o SlowOptions, steps int, seed uint64) *slow {
	s := &slow{
		options: o, lm: lm, seed: kernel.Key(seed, useDropout),
		schedule: optim.Schedule{Kind: o.Schedule, Peak: o.Rate, Final: o.Final,
			Warmup: max(0, o.Warmup), Steps: steps},
		grads: stream.NewArenaOfAll(lm.Layout),
	}
	if o.Optimizer == OptimizerMuon {
		s.opt = optim.NewMuon(lm.Layout, o.Clip)
	} else {
		s.opt = optim.NewAdam(lm.Layout.Size, optim.Beta1, optim.Beta2, optim.Epsilon, o.Clip)
	}
	return s
}

// dropout returns the dropout of the i'th chunk of step t.
func (s *slow) dropout(t, i int) txl.Dropout {
	return txl.Dropout{
		Hidden: float32(s.options.Dropout), Attention: float32(s.options.AttentionDropout),
		Key: kernel.Key(s.seed, uint64(t), uint64(i)),
	}
}

// step makes step t of the optimizer, with the gradients in grads.
func (s *slow) step(x *kernel.Exec, t int) (rate, norm float64) {
	rate = s.schedule.Rate(t)
	return rate, s.opt.Step(x, s.lm.W, s.grads.Values, rate)
}

// moments returns the optimizer's state except the number of steps.
func (s *slow) moments() []array {
	var all []array
	for _, m := range s.opt.Moments() {
		all = append(all, array{m.Name, m.Values})
	}
	return all
}

func (s *slow) save(c *checkpoint) { c.putAll(s.moments()) }

func (s *slow) load(c *checkpoint, steps int) {
	c.getAll(s.moments())
	s.opt.SetSteps(steps)
}
