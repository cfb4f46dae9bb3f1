package bench

import (
	"context"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// Run measures the speed of a model on this computer.
func Run(ctx context.Context, m *model.Model, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	o.complete(m)
	b := &bench{Options: o, ctx: ctx, model: m, x: kernel.NewExecIn(o.Threads, m.Arithmetic),
		memory: newMemory(), seen: map[int][]rates{},
		language: newLanguage(m.Tokenizer)}
	defer b.x.Close()
	b.report = b.about(m, o)
	sections := b.sections()
	for _, s := range sections {
		if slices.Contains(o.Only, s.name) {
			b.planned += s.planned
		}
	}
	for _, s := range sections {
		if slices.Contains(o.Only, s.name) {
			s.measure()
		}
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
	}
	b.noteRange()
	return b.report, nil
}

type stage struct {
	name    string
	measure func()
	planned int
}

func (b *bench) sections() []stage {
	threads, products := len(b.threadCounts()), 0
	for _, w := range b.weights() {
		products += 3 + one(w.inner)
	}
	adaptive, stale := one(b.model.Learner != nil), one(b.adaptsKeys())
	beside := one(b.hasCompanion())
	return []stage{
		{Limits, b.limits, threads},
		{Kernels, b.kernels, threads*(products+adaptive) + headProducts},
		{Chunks, b.chunks, threads*(2+adaptive+stale+adaptive*beside) + beside},
		{Train, b.train, threads},
		{Decode, b.decode, threads + beside},
		{Sessions, b.sessions, 1},
	}
}

func one(made bool) int {
	if made {
		return 1
	}
	return 0
}
