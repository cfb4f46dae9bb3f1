// Package model represents a loaded model: slow weights, meta-learners, tokenizer and serving
// defaults as one immutable value. It also reads and writes models as files of weights.
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

// Model is the read-only data that sessions share.
type Model struct {
	Name      string
	LM        *txl.Model
	Tokenizer tokenizer.Tokenizer // never nil after New, NewOf or FromFile
	// Learner contains the meta-learners. It is nil for a model that was only pretrained. Sessions
	// of such a model have no fast weights by default.
	Learner *sparsemeta.Learner
	// Tables are the compiled meta-learners; nil if Learner is nil.
	Tables sparsemeta.Tables
	// Uniform says that the model has no network. All bytes are equally likely, see Counts.
	Uniform bool
	// Chunk is the number of tokens between two updates of the fast weights. The meta-learners were
	// trained with this number.
	Chunk int
	// Mixture is the share of the mixture's loss in the loss that trains the fast weights of a
	// session with a companion of counts. The network's own loss has the share 1 - Mixture. The
	// meta-learners were trained with this value.
	Mixture float32
	// CompanionBytes is the default size, in bytes, of a session's table of counts; see
	// companion.Settings.
	CompanionBytes int
	// CompanionAlone says that by default a session mixes its companion with the adaptive network
	// only, not also with the static network. Models that must be fast set CompanionAlone, since
	// the static network costs time.
	CompanionAlone bool
	// Store is the type of the slow weights in the model's file; "" is weights.F32. See StoreAs.
	Store weights.DType
	// Statistics are the root mean squares of the gradients of all weights, for DynamicRMS; nil
	// for a model without them.
	Statistics *sparsemeta.Statistics
	// Rivals are the default settings of the methods of adaptation other than sparse-meta.
	Rivals Rivals
	// Card is a JSON object that describes how the model was made and evaluated.
	Card json.RawMessage
	// Arithmetic is the precision and the instruction set with which workers compute. It depends on
	// the machine, and is not part of the model's file.
	Arithmetic kernel.Arithmetic

	hash func() string
}

// New returns a model of bytes, ready to serve, without gradient statistics and with the default
// Rivals. learner may be nil.
func New(name string, lm *txl.Model, learner *sparsemeta.Learner, chunk int,
	card json.RawMessage) (*Model, error) {
	return NewOf(tokenizer.Bytes{}, name, lm, learner, chunk, card)
}

// NewOf is like New, except that it makes a model with the given tokenizer.
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

// NameCharsMax is the maximum number of characters in a model's name. Requests contain the name as
// a part of the model's ID.
const NameCharsMax = 128

// checkName returns an error for a name that a terminal or a log would not show unchanged.
func checkName(name string) error {
	shown := strings.ToValidUTF8(name, "\x00") // \x00 is not printable
	if utf8.RuneCountInString(name) <= NameCharsMax &&
		!strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil
	}
	return fmt.Errorf("model: the name in metadata %s is %q (%d bytes), expected at most %d "+
		"printable characters", keyName, name[:min(len(name), NameCharsMax)], len(name),
		NameCharsMax)
}

func (m *Model) check() error {
	if err := checkName(m.Name); err != nil {
		return err
	}
	switch {
	case m.LM.Config.Vocab != m.Tokenizer.Vocab():
		return fmt.Errorf("model: vocab is %d, but the tokenizer has %d tokens", m.LM.Config.Vocab,
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
			return fmt.Errorf("model: branch %q is not a weight of the model", b.Name)
		}
		if n := m.LM.Layout.Tensors[i].Size; n != b.Size {
			return fmt.Errorf("model: branch %q has %d elements, but its weight has "+
				"%d", b.Name, b.Size,
				n)
		}
	}
	return nil
}

// StoreAs sets the type of the slow weights in the model's file: F32, F16 or BF16. It rounds the
// weights in place, so that the running model equals the stored one. Call it before the model's
// first use. If a weight is too large for the type, StoreAs returns an error and changes nothing.
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

// OfWords reports whether the model's tokens are words. Otherwise they are bytes.
func (m *Model) OfWords() bool {
	_, ok := m.Tokenizer.(*tokenizer.Words)
	return ok
}

// Hash returns the hash of the content of the model's file. It does not depend on how the file is
// compressed. The content is slow weights, meta-learners, statistics, configuration, default
// settings and card.
func (m *Model) Hash() string { return m.hash() }

// ID returns the identifier of the model in answers: its name and the first 12 digits of its hash.
func (m *Model) ID() string { return idOf(m.Name, m.Hash()) }

// DefaultID returns the ID of the embedded model, without reading the model.
func DefaultID() string { return idOf(NamePrefix+weights.DefaultName, weights.DefaultHash) }

func idOf(name, hash string) string { return name + "-" + hash[:12] }

// NamePrefix begins the names of the models that lmserve ships.
const NamePrefix = "lmserve-"

// WhichNamed returns the indexes of the models that a request names: by ID, by name, or by name
// without NamePrefix. An ID identifies one model; several models may share a name.
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

// ArenaSize returns the number of elements of a fast-weight arena: the array of all branches, one
// after another. It is 0 without meta-learners.
func (m *Model) ArenaSize() (n int) {
	if m.Learner == nil {
		return 0
	}
	for _, b := range m.Learner.Branches {
		n += b.Size
	}
	return n
}

// IsBranch reports whether the weight with the given index in the layout has fast weights.
func (m *Model) IsBranch(tensor int) bool {
	name := m.LM.Layout.Tensors[tensor].Name
	return m.Learner != nil && slices.ContainsFunc(m.Learner.Branches,
		func(b sparsemeta.Branch) bool { return b.Name == name })
}

// Views cuts an arena of all branches into one slice for each weight of the layout. The slice is
// nil for a weight that is not a branch. txl takes fast weights and returns gradients in this form.
// For a nil arena, all slices are nil.
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

// ErrNotAModel is the error for a valid file of weights that contains no model.
var ErrNotAModel = errors.New("the file contains no model: its metadata has no lmserve.config " +
	"(is the file a checkpoint or a conformance file?)")
