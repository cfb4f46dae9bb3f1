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

// DefaultRivals returns the settings for models without tuned settings.
func DefaultRivals() Rivals {
	return Rivals{SGD: sparsemeta.SGDSettings(), RMS: sparsemeta.RMSSettings(),
		Cache: sparsemeta.DefaultCacheSettings()}
}

// Validate returns an error for the first setting that is out of range. The error names the method
// of adaptation.
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

func readRivals(f *weights.File) (Rivals, error) {
	r := DefaultRivals()
	if text, ok := f.Metadata[keyRivals]; ok {
		if err := strictjson.Unmarshal([]byte(text), &r); err != nil {
			return r, err
		}
	}
	return r, r.Validate()
}

// WithRivals returns a copy of the model with the given settings. The hash of a model depends on
// these settings.
func (m *Model) WithRivals(r Rivals) (*Model, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("model: rivals: %w", err)
	}
	return m.with(func(c *Model) { c.Rivals = r }), nil
}

// ErrStatisticsInUse reports that a model's statistics of gradients cannot be replaced.
var ErrStatisticsInUse = errors.New("model: the statistics of gradients cannot be replaced, " +
	"because the meta-learners were trained with them")

// WithStatistics returns a copy of the model with new gradient statistics. Parameter rms holds the
// root mean square of each weight's gradient, in the order of LM.W. The copy has a different hash.
// If the meta-learners were trained with statistics, the error is ErrStatisticsInUse.
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

// with returns a copy of the model, modified by change. Both models share the unmodified data.
func (m *Model) with(change func(*Model)) *Model {
	c := *m
	change(&c)
	c.setHash()
	return &c
}

// Weights returns every tensor of a layout as a branch, because dynamic evaluation adapts all
// weights.
func Weights(l *txl.Layout) []sparsemeta.Branch {
	branches := make([]sparsemeta.Branch, len(l.Tensors))
	for i, t := range l.Tensors {
		branches[i] = sparsemeta.Branch{Name: t.Name, Size: t.Size}
	}
	return branches
}

// A tensor of statistics is named by one of these prefixes, followed by the weight's name.
const (
	statisticsCodes = "gradient.rms."
	statisticsScale = "gradient.scale."
)

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

// readStatistics returns nil if the file has no statistics for the first weight.
func readStatistics(r *reader, l *txl.Layout) (*sparsemeta.Statistics, error) {
	if _, ok := r.file.Tensor(statisticsCodes + l.Tensors[0].Name); !ok {
		return nil, nil
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
