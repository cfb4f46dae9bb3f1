package model

import (
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Rivals are the default settings of the methods of adaptation other than sparse-meta.
type Rivals struct {
	SGD   sparsemeta.DynamicSettings `json:"dynamic_sgd"`
	RMS   sparsemeta.DynamicSettings `json:"dynamic_rms"`
	Cache sparsemeta.CacheSettings   `json:"cache"`
}

// DefaultRivals returns the settings for a model on which they were not tuned.
func DefaultRivals() Rivals {
	return Rivals{SGD: sparsemeta.SGDSettings(), RMS: sparsemeta.RMSSettings(),
		Cache: sparsemeta.DefaultCacheSettings()}
}

// Validate returns an error for the first setting that is out of range. The error names its method.
func (r Rivals) Validate() error {
	for _, c := range []struct {
		name string
		set  interface{ Validate() error }
	}{{"dynamic_sgd", r.SGD}, {"dynamic_rms", r.RMS}, {"cache", r.Cache}} {
		if err := c.set.Validate(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// readRivals returns the settings in a file. For settings that the file lacks it returns the
// defaults.
func readRivals(f *weights.File) (Rivals, error) {
	r := DefaultRivals()
	if text, ok := f.Metadata[keyRivals]; ok {
		if err := strictjson.Unmarshal([]byte(text), &r); err != nil {
			return r, err
		}
	}
	return r, r.Validate()
}

// WithRivals returns a copy of the model with the given Rivals. The copy therefore has another
// hash.
func (m *Model) WithRivals(r Rivals) (*Model, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("model: rivals: %w", err)
	}
	return m.with(func(c *Model) { c.Rivals = r }), nil
}

// ErrStatisticsInUse reports that a model's statistics of gradients cannot be replaced.
var ErrStatisticsInUse = errors.New("model: the statistics of gradients cannot be replaced, " +
	"because the meta-learners were trained with them")

// WithStatistics returns a model with rms as its statistics of gradients: the root mean square of
// every weight's gradient, in the layout of LM.W. It therefore has another hash. If the
// meta-learners were trained with statistics, the error is ErrStatisticsInUse.
func (m *Model) WithStatistics(rms []float32) (*Model, error) {
	if m.Learner != nil && m.Learner.Normal != nil {
		return nil, ErrStatisticsInUse
	}
	s, err := sparsemeta.NewStatistics(Weights(m.LM.Layout), rms)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return m.with(func(c *Model) { c.Statistics = s }), nil
}

// WithLengths returns a copy of the model whose layers attend over the given lengths. The weights
// are the same, but the hash is different.
func (m *Model) WithLengths(l txl.Lengths) (*Model, error) {
	config := m.LM.Config.WithLengths(l)
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return m.with(func(c *Model) {
		lm := *m.LM
		lm.Config = config
		c.LM = &lm
	}), nil
}

// with returns a changed copy of the model. The copy shares all unchanged data.
func (m *Model) with(change func(*Model)) *Model {
	c := *m
	change(&c)
	c.setHash()
	return &c
}

// Weights returns all weights of a layout as branches, for dynamic evaluation.
func Weights(l *txl.Layout) []sparsemeta.Branch {
	branches := make([]sparsemeta.Branch, len(l.Tensors))
	for i, t := range l.Tensors {
		branches[i] = sparsemeta.Branch{Name: t.Name, Size: t.Size}
	}
	return branches
}

// Prefixes of the names of the statistics' tensors. The name of a weight follows the prefix.
const (
	statisticsCodes = "gradient.rms."
	statisticsScale = "gradient.scale."
)

// appendStatistics appends the statistics' tensors to a file.
func (m *Model) appendStatistics(f *weights.File) {
	if m.Statistics == nil {
		return
	}
	for i, t := range m.LM.Layout.Tensors {
		f.Tensors = append(f.Tensors,
			weights.Tensor{Name: statisticsCodes + t.Name, DType: weights.U8, Shape: t.Shape,
				Data: m.Statistics.Codes[t.Off : t.Off+t.Size]},
			weights.F32Tensor(statisticsScale+t.Name, nil, m.Statistics.Scales[i:i+1]))
	}
}

// readStatistics reads the statistics of all weights. If the file has no statistics of the first
// weight, the model has none.
func readStatistics(r *reader, l *txl.Layout) (*sparsemeta.Statistics, error) {
	if _, ok := r.file.Tensor(statisticsCodes + l.Tensors[0].Name); !ok {
		return nil, nil // if the file has statistics of other weights, their tensors are surplus
	}
	s := &sparsemeta.Statistics{Branches: Weights(l), Codes: make([]uint8, l.Size),
		Scales: make([]float32, len(l.Tensors))}
	for i, t := range l.Tensors {
		r.readBytes(statisticsCodes+t.Name, t.Shape, s.Codes[t.Off:t.Off+t.Size])
		r.read(statisticsScale+t.Name, nil, s.Scales[i:i+1])
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, s.Validate()
}
