package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Keys of the metadata. Every value is JSON except the model's name, which is plain text.
const (
	keyName      = "lmserve.name"
	keyConfig    = "lmserve.config"
	keyTokenizer = "lmserve.tokenizer"
	keyAdapt     = "lmserve.adapt"
	keyRivals    = "lmserve.rivals"
	keyCard      = "lmserve.card"
)

// SymbolsTensor is the name of the tensor of type U8 and shape [n] that contains the vocabulary of
// a tokenizer, see tokenizer.Tokenizer.Symbols.
const SymbolsTensor = "tokenizer.symbols"

// adapt is the JSON value of the metadata's key lmserve.adapt.
type adapt struct {
	sparsemeta.Settings
	Chunk    int                `json:"chunk"`
	Branches []string           `json:"branches"`
	Normal   *sparsemeta.Normal `json:"normal,omitempty"`
	Mixture  float32            `json:"mixture,omitempty"`
	// CompanionBytes is missing if it equals companion.TableBytesDefault.
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	CompanionAlone bool `json:"companion_alone,omitempty"`
}

func networkTensor(bank int, branch, part string) string {
	return fmt.Sprintf("meta.%d.%s.%s", bank, branch, part)
}

// File returns the model as a file of weights. Slow weights have the type m.Store, meta-learners
// have float32.
func (m *Model) File() *weights.File {
	f := &weights.File{Metadata: map[string]string{
		keyName:      m.Name,
		keyConfig:    mustJSON(m.LM.Config),
		keyTokenizer: m.Tokenizer.Describe(),
		keyAdapt:     mustJSON(m.adapt()),
	}}
	if len(m.Card) > 0 {
		f.Metadata[keyCard] = string(m.Card)
	}
	store := cmp.Or(m.Store, weights.F32)
	for i, t := range m.LM.Layout.Tensors {
		f.Tensors = append(f.Tensors, weights.FloatTensor(t.Name, store, t.Shape, m.LM.Tensor(i)))
	}
	if m.Rivals != DefaultRivals() {
		f.Metadata[keyRivals] = mustJSON(m.Rivals)
	}
	m.appendLearner(f)
	m.appendStatistics(f)
	if symbols := m.Tokenizer.Symbols(); symbols != nil {
		f.Tensors = append(f.Tensors, weights.Tensor{
			Name: SymbolsTensor, DType: weights.U8, Shape: []int{len(symbols)}, Data: symbols,
		})
	}
	return f
}

func (m *Model) appendLearner(f *weights.File) {
	if m.Learner == nil {
		return
	}
	for bank, networks := range m.Learner.Phi {
		for k, branch := range m.Learner.Branches {
			for _, part := range sparsemeta.Parts() {
				f.Tensors = append(f.Tensors, weights.F32Tensor(networkTensor(bank, branch.Name,
					part.Name), part.Shape, networks[k][part.Lo:part.Hi]))
			}
		}
	}
}

func (m *Model) adapt() adapt {
	a := adapt{Chunk: m.Chunk, CompanionAlone: m.CompanionAlone}
	if m.CompanionBytes != companion.TableBytesDefault {
		a.CompanionBytes = m.CompanionBytes
	}
	if m.Learner != nil {
		a.Settings, a.Normal, a.Mixture = m.Learner.Settings, m.Learner.Normal, m.Mixture
		for _, b := range m.Learner.Branches {
			a.Branches = append(a.Branches, b.Name)
		}
	}
	return a
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: structs of numbers and strings can always be encoded
	}
	return string(b)
}

// FromFile builds the model of a file of weights. The file must have exactly the tensors of the
// configuration, in their shapes. Unknown fields in the metadata are errors, since they may
// change the meaning of the weights.
func FromFile(f *weights.File) (*Model, error) {
	if _, ok := f.Metadata[keyConfig]; !ok {
		return nil, ErrNotAModel
	}
	var config txl.Config
	var a adapt
	if err := strictjson.Unmarshal([]byte(f.Metadata[keyConfig]), &config); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyConfig, err)
	}
	if err := strictjson.Unmarshal([]byte(f.Metadata[keyAdapt]), &a); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyAdapt, err)
	}
	rivals, err := readRivals(f)
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyRivals, err)
	}
	r := reader{file: f}
	tok, err := tokenizer.Parse(f.Metadata[keyTokenizer], r.symbols())
	if err := cmp.Or(r.err, err); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyTokenizer, err)
	}
	lm, err := readNetwork(&r, config)
	if err != nil {
		return nil, err
	}
	var learner *sparsemeta.Learner
	if len(a.Branches) > 0 {
		if learner, err = readLearner(&r, lm.Layout, a); err != nil {
			return nil, err
		}
	}
	statistics, err := readStatistics(&r, lm.Layout)
	if err != nil {
		return nil, err
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	if err := normalize(learner, a.Normal, statistics); err != nil {
		return nil, err
	}
	m, err := NewOf(tok, f.Metadata[keyName], lm, learner, a.Chunk,
		json.RawMessage(f.Metadata[keyCard]))
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(a.checkMixture(m), a.checkCompanion(m)); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyAdapt, err)
	}
	return m.with(func(m *Model) {
		m.Store, m.Rivals, m.Statistics = storedAs(f, lm.Layout), rivals, statistics
		m.Mixture, m.CompanionBytes = a.Mixture, cmp.Or(a.CompanionBytes, m.CompanionBytes)
		m.CompanionAlone = a.CompanionAlone
	}), nil
}

// checkCompanion returns an error for an invalid table size. It also returns an error if a model of
// words has settings that apply only to a companion of counts.
func (a adapt) checkCompanion(m *Model) error {
	switch {
	case a.CompanionAlone && m.OfWords():
		return errors.New("companion_alone is true, expected false for a model of words")
	case a.CompanionBytes == 0:
		return nil
	case m.OfWords():
		return fmt.Errorf("companion_bytes is %d, expected no value for a model of words",
			a.CompanionBytes)
	}
	return companion.Settings{TableBytes: a.CompanionBytes, Networks: 1}.Validate()
}

// checkMixture returns an error if the mixture's share is not from 0 to 1, or if the model cannot
// have a mixture.
func (a adapt) checkMixture(m *Model) error {
	switch share := a.Mixture; {
	case !(share >= 0 && share <= 1):
		return fmt.Errorf("mixture is %v, expected 0 to 1", share)
	case share > 0 && (m.Learner == nil || m.OfWords()):
		return fmt.Errorf("mixture is %v, expected 0 for a model of words and for a model "+
			"without branches",
			share)
	}
	return nil
}

// storedAs returns the common 16-bit type of the slow weights in a file. Without a common 16-bit
// type it returns F32.
func storedAs(f *weights.File, l *txl.Layout) weights.DType {
	var common weights.DType
	for i, t := range l.Tensors {
		stored, _ := f.Tensor(t.Name)
		if i == 0 {
			common = stored.DType
		}
		if stored.DType != common || common != weights.F16 && common != weights.BF16 {
			return weights.F32
		}
	}
	return common
}

// readNetwork reads the slow weights. Before it allocates memory, it checks that the file has all
// tensors, since the configuration in even a small file may specify a huge network.
func readNetwork(r *reader, config txl.Config) (*txl.Model, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyConfig, err)
	}
	for _, t := range txl.NewLayout(config).Tensors {
		r.tensor(t.Name, t.Shape)
	}
	if r.err != nil {
		return nil, r.err
	}
	lm, err := txl.NewModel(config)
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyConfig, err)
	}
	for i, t := range lm.Layout.Tensors {
		r.read(t.Name, t.Shape, lm.Tensor(i))
	}
	return lm, nil
}

func readLearner(r *reader, layout *txl.Layout, a adapt) (*sparsemeta.Learner, error) {
	if err := a.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyAdapt, err)
	}
	l := &sparsemeta.Learner{Settings: a.Settings}
	for _, name := range a.Branches {
		i := layout.Index(name)
		if i < 0 {
			return nil, fmt.Errorf("metadata %s: branch %q is not a weight of the "+
				"model", keyAdapt,
				name)
		}
		l.Branches = append(l.Branches, sparsemeta.Branch{Name: name, Size: layout.Tensors[i].Size})
	}
	for bank := range a.Gammas {
		networks := make([]sparsemeta.Network, len(l.Branches))
		for k, b := range l.Branches {
			for _, part := range sparsemeta.Parts() {
				r.read(networkTensor(bank, b.Name, part.Name), part.Shape,
					networks[k][part.Lo:part.Hi])
			}
		}
		l.Phi = append(l.Phi, networks)
	}
	return l, nil
}

// normalize restores how a learner normalizes its inputs, if the file contains this setting.
func normalize(l *sparsemeta.Learner, n *sparsemeta.Normal, s *sparsemeta.Statistics) (err error) {
	switch {
	case n == nil:
		return nil
	case l == nil:
		return fmt.Errorf("metadata %s: the field \"normal\" needs branches, but the model has "+
			"none", keyAdapt)
	case s == nil:
		return fmt.Errorf("metadata %s: the field \"normal\" needs statistics of gradients, but "+
			"the file has none", keyAdapt)
	}
	if err := l.Normalize(*n, s); err != nil {
		return fmt.Errorf("metadata %s: %w", keyAdapt, err)
	}
	return nil
}

// reader copies named tensors out of a file and keeps the first error.
type reader struct {
	file *weights.File
	used int
	err  error
}

func (r *reader) tensor(name string, shape []int) *weights.Tensor {
	if r.err != nil {
		return nil
	}
	t, ok := r.file.Tensor(name)
	if !ok {
		r.err = fmt.Errorf("tensor %q is missing, but the configuration needs it with shape "+
			"%v", name,
			shape)
		return nil
	}
	if !slices.Equal(t.Shape, shape) {
		r.err = fmt.Errorf("tensor %q has shape %v, but the configuration needs shape "+
			"%v", name, t.Shape,
			shape)
		return nil
	}
	return t
}

func (r *reader) readBytes(name string, shape []int, dst []uint8) {
	t := r.tensor(name, shape)
	if t == nil {
		return
	}
	if t.DType != weights.U8 {
		r.err = fmt.Errorf("tensor %q has dtype %s, expected %s", name, t.DType, weights.U8)
		return
	}
	copy(dst, t.Data)
	r.used++
}

// symbols returns the vocabulary in the file, or nil if the file has none.
func (r *reader) symbols() []byte {
	t, ok := r.file.Tensor(SymbolsTensor)
	switch {
	case !ok:
		return nil
	case t.DType != weights.U8 || len(t.Shape) != 1:
		r.err = fmt.Errorf("tensor %q has type %s and shape %v, expected type %s and one dimension",
			SymbolsTensor,
			t.DType, t.Shape, weights.U8)
	}
	r.used++
	return t.Data
}

func (r *reader) read(name string, shape []int, dst []float32) {
	t := r.tensor(name, shape)
	if t == nil {
		return
	}
	values, err := t.Float32s()
	if err != nil {
		r.err = err
		return
	}
	for j, v := range values {
		if v-v != 0 { // true for NaN and infinite v
			r.err = fmt.Errorf("tensor %q, element %d is %v, expected a finite number", name, j, v)
			return
		}
	}
	copy(dst, values)
	r.used++
}

func (r *reader) finish() error {
	if r.err == nil && r.used != len(r.file.Tensors) {
		r.err = fmt.Errorf("found %d tensors, but the configuration needs %d", len(r.file.Tensors),
			r.used)
	}
	return r.err
}
