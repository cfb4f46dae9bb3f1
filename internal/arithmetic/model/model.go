// Package model is a loaded model: slow weights, meta-learners, tokenizer and
// serving defaults as one immutable value, and its form as a file of weights.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Model is everything that sessions share, read-only.
type Model struct {
	Name      string
	LM        *txl.Model
	Tokenizer tokenizer.Tokenizer // never nil in a model of New, NewOf or FromFile
	// Learner holds the meta-learners; nil for a model that was only
	// pretrained and serves statically.
	Learner *sparsemeta.Learner
	// Tables are the compiled meta-learners; nil if Learner is nil.
	Tables sparsemeta.Tables
	// Uniform says that the model has no network: see Counts.
	Uniform bool
	// Chunk is the number of tokens between two updates of the fast weights
	// that the meta-learners were trained for.
	Chunk int
	// Mixture is the share of the mixture's loss in what the fast weights beside a companion of
	// counts learn from; the network's own loss has the rest. The meta-learners were trained for
	// it.
	Mixture float32
	// CompanionBytes is the size of the table of counts that a session has beside the network
	// unless it asks for another one; see companion.Settings.
	CompanionBytes int
	// CompanionAlone says that a session mixes its companion with the network that adapts alone,
	// unless it asks for the static one besides: for models whose speed matters more.
	CompanionAlone bool
	// Store is the type of the slow weights in the model's file; "" is weights.F32. See StoreAs.
	Store weights.DType
	// Statistics are the root mean squares of the gradients of all weights,
	// for dynamic evaluation in its RMS form; nil for a model without.
	Statistics *sparsemeta.Statistics
	// Rivals are the default settings of the other methods of adaptation.
	Rivals Rivals
	// Card tells how the model came about and what it measured: any JSON object.
	Card json.RawMessage
	// Arithmetic is the precision and the instructions that workers compute with. It is a choice
	// for the machine, not a part of the model's file.
	Arithmetic kernel.Arithmetic

	hash func() string
}

// New returns a model of bytes ready to serve, without statistics and with the default
// settings for the rivals. learner may be nil.
func New(name string, lm *txl.Model, learner *sparsemeta.Learner, chunk int,
	card json.RawMessage) (*Model, error) {
	return NewOf(tokenizer.Bytes{}, name, lm, learner, chunk, card)
}

// NewOf is New for a model of the tokens of some tokenizer.
func NewOf(
	tok tokenizer.Tokenizer, name string, lm *txl.Model, learner *sparsemeta.Learner, chunk int,
	card json.RawMessage,
) (*Model, error) {
	m := &Model{
		Name: name, LM: lm, Tokenizer: tok, Learner: learner, Chunk: chunk, Rivals: DefaultRivals(),
		CompanionBytes: companion.TableBytesDefault, Card: card,
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if learner != nil {
		m.Tables = learner.Compile()
	}
	m.setHash()
	return m, nil
}

func (m *Model) setHash() { m.hash = sync.OnceValue(func() string { return m.File().Hash() }) }

// NameCharsMax bounds a model's name, so that its ID fits where requests name it.
const NameCharsMax = 128

// checkName refuses a name that a terminal or a log would not show as it is.
func checkName(name string) error {
	shown := strings.ToValidUTF8(name, "\x00") // which cannot be printed
	if utf8.RuneCountInString(name) <= NameCharsMax &&
		!strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil
	}
	return fmt.Errorf("model: name (metadata %s) is %q of %d bytes, expected at most %d printable "+
		"characters", keyName, name[:min(len(name), NameCharsMax)], len(name), NameCharsMax)
}

func (m *Model) check() error {
	if err := checkName(m.Name); err != nil {
		return err
	}
	switch {
	case m.LM.Config.Vocab != m.Tokenizer.Vocab():
		return fmt.Errorf("model: vocab is %d, the tokenizer has %d", m.LM.Config.Vocab,
			m.Tokenizer.Vocab())
	case m.Chunk < 1:
		return fmt.Errorf("model: chunk is %d, expected at least 1", m.Chunk)
	}
	var object map[string]json.RawMessage
	if len(m.Card) > 0 {
		if err := json.Unmarshal(m.Card, &object); err != nil {
			return fmt.Errorf("model: card: expected a JSON object: %w", err)
		}
	}
	if m.Learner == nil {
		return nil
	}
	for _, b := range m.Learner.Branches {
		i := m.LM.Layout.Index(b.Name)
		if i < 0 {
			return fmt.Errorf("model: branch %q is no weight of the model", b.Name)
		}
		if n := m.LM.Layout.Tensors[i].Size; n != b.Size {
			return fmt.Errorf("model: branch %q has %d elements, the weight has %d", b.Name, b.Size,
				n)
		}
	}
	return nil
}

// StoreAs makes the model's file hold the slow weights as F32, F16 or BF16, and rounds the weights
// in place to what the file will hold, so that the model that runs is the one that is stored. It
// must be called before the model's first use. If a weight is too large for the type, StoreAs fails
// and changes nothing.
func (m *Model) StoreAs(d weights.DType) error {
	rounded := make([]float32, 0, len(m.LM.W))
	for i, t := range m.LM.Layout.Tensors {
		stored := weights.FloatTensor(t.Name, d, t.Shape, m.LM.Tensor(i))
		values, err := stored.Float32s()
		if err != nil {
			return err
		}
		for k, v := range values {
			if v-v != 0 {
				return fmt.Errorf("model: tensor %q, element %d is %v, too large for %s", t.Name, k,
					m.LM.Tensor(i)[k], d)
			}
		}
		rounded = append(rounded, values...)
	}
	copy(m.LM.W, rounded)
	m.Store = d
	return nil
}

// OfWords reports whether the model's tokens are words. Those of any other model are bytes.
func (m *Model) OfWords() bool {
	_, ok := m.Tokenizer.(*tokenizer.Words)
	return ok
}

// Hash is the content hash of the model's file: the slow weights, the
// meta-learners, the statistics, the configuration, the default settings and
// the card, whatever the compression.
func (m *Model) Hash() string { return m.hash() }

// ID names the model in answers: its name and the start of its hash.
func (m *Model) ID() string { return idOf(m.Name, m.Hash()) }

// DefaultID is the ID of the model that is embedded in the binary, which is not read for it.
func DefaultID() string { return idOf(NamePrefix+weights.DefaultName, weights.DefaultHash) }

func idOf(name, hash string) string { return name + "-" + hash[:12] }

// NamePrefix begins the names of the models that come with the product.
const NamePrefix = "lmserve-"

// WhichNamed returns the indexes of the models that requests name so: by the ID, by the name, or by
// the name without NamePrefix. An ID is that of one model; several models may share a name.
func WhichNamed(ids, names []string, asked string) (which []int) {
	for i, id := range ids {
		if id == asked {
			return []int{i}
		}
		if asked == names[i] || NamePrefix+asked == names[i] {
			which = append(which, i)
		}
	}
	return which
}

// ArenaSize is the number of elements of a fast-weight arena: all branches
// one after the other. 0 without meta-learners.
func (m *Model) ArenaSize() (n int) {
	if m.Learner == nil {
		return 0
	}
	for _, b := range m.Learner.Branches {
		n += b.Size
	}
	return n
}

// IsBranch reports whether a tensor of the layout has fast weights.
func (m *Model) IsBranch(tensor int) bool {
	name := m.LM.Layout.Tensors[tensor].Name
	return m.Learner != nil && slices.ContainsFunc(m.Learner.Branches,
		func(b sparsemeta.Branch) bool { return b.Name == name })
}

// Views cuts an arena of all branches into one slice a weight of the layout,
// nil where a weight is no branch: the form in which txl takes fast weights
// and gives gradients. A nil arena gives nil slices throughout.
func (m *Model) Views(arena []float32) [][]float32 {
	views := make([][]float32, len(m.LM.Layout.Tensors))
	if m.Learner == nil || arena == nil {
		return views
	}
	off := 0
	for _, b := range m.Learner.Branches {
		views[m.LM.Layout.Index(b.Name)] = arena[off : off+b.Size : off+b.Size]
		off += b.Size
	}
	return views
}

// Load reads a model from a file of weights.
func Load(file string) (*Model, error) {
	f, err := weights.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// ErrNotAModel is returned for well-formed files of weights that hold no model.
var ErrNotAModel = errors.New("no model: the file has no lmserve.config in its metadata (is it a " +
	"checkpoint or a conformance file?)")
