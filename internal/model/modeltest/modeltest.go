// Package modeltest makes the small random model that tests of other packages share.
package modeltest

import (
	"sync"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Chunk is the model's chunk, in tokens.
const Chunk = 16

// Small is New(7), made once.
var Small = sync.OnceValues(func() (*model.Model, error) { return New(7) })

// New returns a model of a few random weights, which depend on the seed. It has everything that a
// method of adaptation asks for: two banks, statistics of gradients, and fast weights large enough
// to be seen in every score after the first chunk.
func New(seed uint64) (*model.Model, error) {
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 256, SegLen: Chunk, MemLen: 20})
	if err != nil {
		return nil, err
	}
	lm.Init(seed)
	rms := make([]float32, len(lm.W))
	for i := range lm.W {
		lm.W[i] *= 5 // far from uniform
		rms[i] = 1e-3 * float32(1+i%7)
	}
	branches, err := model.Branches(lm.Layout, nil)
	if err != nil {
		return nil, err
	}
	learner := &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.TwoBankSettings()}
	learner.Settings.Out = 1
	learner.Init(sparsemeta.InitHe(), seed+4)
	m, err := model.New("small", lm, learner, Chunk, []byte(`{"data":"none","bpc":7.5,"held_out":{"a":1}}`))
	if err != nil {
		return nil, err
	}
	return m.WithStatistics(rms)
}
