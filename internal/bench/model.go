package bench

import (
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// paperChunk is the paper's chunk for characters, in tokens.
const paperChunk = 128

// RandomModel is a model whose weights and meta-learners are drawn at random, with the
// paper's branches and one bank: what its speed depends on is there without a file.
func RandomModel(name string, c txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(1)
	l := &sparsemeta.Learner{Settings: sparsemeta.PaperSettings()}
	l.Settings.Out = sparsemeta.TwoBankSettings().Out // fast weights as large as trained ones
	if l.Branches, err = model.Branches(lm.Layout, []string{"paper"}); err != nil {
		return nil, err
	}
	l.Init(sparsemeta.InitHe(), 1)
	return model.New(name, lm, l, paperChunk, nil)
}
