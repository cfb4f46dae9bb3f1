package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Options say how a checkpoint is converted.
type Options struct {
	// Settings override the settings in the checkpoint.
	Settings Settings
	// Config is the configuration that the tensors must fit. If Config is nil, the configuration is
	// inferred from the tensors.
	Config *txl.Config
	// Order is the order of the clusters' columns in the checkpoint's adaptive softmax. "" means
	// Ascending in Hugging Face's layout, Descending in other layouts.
	Order Order
}

// Converted is a model converted from a checkpoint. To save memory, the data of a tensor is
// converted only when a caller reads the data.
type Converted struct {
	Config  txl.Config
	Tensors []weights.StoredTensor
	// Order is the order of the clusters' columns in the checkpoint's adaptive softmax. Why
	// describes how the order was found, or is "" if Options named the order. With fewer than two
	// clusters after the head, Order and Why are "".
	Order Order
	Why   string
}

// Convert returns the checkpoint's model. If tensors are missing, unexpected or of a wrong shape,
// the error is a *Mismatch that names all of them.
func (c *Checkpoint) Convert(o Options) (*Converted, error) {
	byName, err := rename(c.tensors)
	if err != nil {
		return nil, err
	}
	settings := o.Settings.over(c.settings)
	if c := o.Config; c != nil {
		settings = o.Settings.over(Settings{
			&c.MemLen, &c.SegLen, &c.ClampLen, &c.SameLength, &c.PreLNorm, &c.UntieSoftmax,
			append([]int{}, c.Cutoffs...), // not nil, even if empty: nil would mean unknown cutoffs
		})
	}
	if c.Form == FormSafetensors {
		untwin(byName, settings.untied())
	}
	shapes := make(map[string][]int, len(byName))
	for name, t := range byName {
		shapes[name] = t.Shape
	}
	if err := unreadable(configOfShapes(shapes), byName); err != nil && o.Config == nil {
		return nil, err
	}
	config, err := configOf(shapes, settings, o.Config)
	if err != nil {
		return nil, err
	}
	if c.Form == FormSafetensors {
		retwin(config, byName)
	}
	if err := fit(slotsOf(config), byName, true); err != nil {
		return nil, err
	}
	chosen, err := choose(&config, settings, byName)
	if err != nil {
		return nil, err
	}
	converted := &Converted{Config: config}
	if len(config.Cutoffs) > 1 {
		if converted.Order = o.Order; o.Order == "" {
			converted.Order, converted.Why = c.orderOf()
		}
		ordered(chosen, converted.Order)
	}
	converted.Tensors = stored(chosen)
	return converted, nil
}

// untwin adds missing weights of the input embeddings, as copies of the softmax's weights.
// Safetensors files keep a tied weight once, under any of its names; PyTorch's files keep all
// names.
//
// Two kinds of weights are not added. The first kind is tables, if the softmax has separate tables.
// The second kind is the projection of a table that several clusters share. The softmax then has
// one projection per cluster, and any of these projections could be the copy.
func untwin(byName map[string]Tensor, untied bool) {
	_, clusters := byName["crit.cluster_bias"]
	_, second := byName[inputTable+"1"+weightSuffix]
	_, secondCopy := byName[outputTable+"1"+weightSuffix]
	shared := clusters && !second && !secondCopy
	for name, t := range maps.Clone(byName) {
		if number, ok := cutAffixes(name, outputTable, weightSuffix); ok && !untied {
			putIfAbsent(byName, inputTable+number+weightSuffix, t)
		}
		if number, ok := strings.CutPrefix(name, outputProjection); ok && !shared {
			putIfAbsent(byName, inputProjection+number, t)
		}
	}
}

// retwin adds the softmax's missing weights, as copies of the input's tied weights.
func retwin(c txl.Config, byName map[string]Tensor) {
	for _, p := range slotsOf(c) {
		if t, ok := byName[p.twin]; ok && !(c.UntieSoftmax && p.ofTable()) {
			putIfAbsent(byName, p.name, t)
		}
	}
}

// Mismatch lists the tensors of a checkpoint that do not fit its configuration.
type Mismatch struct{ Missing, Extra, Misshapen []string }

func (m *Mismatch) Error() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing", m.Missing}, {"unexpected", m.Extra}, {"of a wrong shape", m.Misshapen}} {
		if len(p.names) > 0 {
			parts = append(parts,
				fmt.Sprintf("%d %s: %s", len(p.names), p.what, strings.Join(p.names, ", ")))
		}
	}
	return "checkpoint: the tensors do not fit the configuration: " + strings.Join(parts, "; ")
}

// fit returns a *Mismatch with the tensors that are missing, unexpected or of a wrong shape, or
// nil. If `shapes` is false, the slots' shapes are unknown and not compared.
func fit(slots []slot, byName map[string]Tensor, shapes bool) error {
	var m Mismatch
	used := map[string]bool{}
	for _, p := range slots {
		t, ok := byName[p.name]
		used[p.name] = true
		switch {
		case !ok && shapes:
			m.Missing = append(m.Missing, p.name+" "+shapeText(p.shape))
		case !ok:
			m.Missing = append(m.Missing, p.name)
		case shapes && !slices.Equal(t.Shape, p.shape):
			wrong := fmt.Sprintf("%s %s, expected %s", t.Name, shapeText(t.Shape),
				shapeText(p.shape))
			// several slots may use one tied weight, which is listed once
			if !slices.Contains(m.Misshapen, wrong) {
				m.Misshapen = append(m.Misshapen, wrong)
			}
		}
	}
	for name, t := range byName {
		if !used[name] {
			m.Extra = append(m.Extra, t.Name+" "+shapeText(t.Shape))
		}
	}
	if m.Missing == nil && m.Extra == nil && m.Misshapen == nil {
		return nil
	}
	slices.Sort(m.Extra)
	return &m
}

// unreadable returns an error if the tensors' shapes do not determine a configuration, because a
// necessary tensor is missing.
func unreadable(c txl.Config, byName map[string]Tensor) error {
	if c.NLayer > 0 && c.NHead > 0 && c.DModel > 0 && c.DInner > 0 && c.Vocab > 0 {
		return nil
	}
	c.NLayer = max(1, c.NLayer)
	if err := fit(slotsOf(c), byName, false); err != nil {
		return err
	}
	return malformed("tensors", "dimensions of 0, or too many", "shapes that determine a "+
		"configuration")
}

// choose returns the tensors of the configuration's layout, in the order and with the names of the
// layout. Copies of tied weights are left out. choose sets c.TieProjs and c.UntieSoftmax.
func choose(c *txl.Config, s Settings, byName map[string]Tensor) ([]Tensor, error) {
	var own []string
	c.TieProjs = nil
	for _, p := range slotsOf(*c) {
		twin, ok := byName[p.twin]
		if !ok || p.ofTable() && s.untied() {
			continue
		}
		tied, err := sameData(twin, byName[p.name])
		if err != nil {
			return nil, err
		}
		switch {
		case !p.ofTable():
			c.TieProjs = append(c.TieProjs, tied)
		case !tied:
			own = append(own, byName[p.name].Name)
		}
	}
	if own != nil && s.UntieSoftmax != nil && !s.untied() {
		return nil, unsupported("tensors "+strings.Join(own, ", "),
			"other values than the embeddings'",
			"a softmax with the embeddings as weights, as configured")
	}
	c.UntieSoftmax = s.untied() || own != nil
	layout := txl.NewLayout(*c)
	chosen := make([]Tensor, len(layout.Tensors))
	for i, want := range layout.Tensors {
		chosen[i] = byName[want.Name]
		chosen[i].Name = want.Name
	}
	return chosen, nil
}

// stored converts the tensors to a common type: F16 or BF16 if all tensors have this type,
// otherwise F32.
func stored(tensors []Tensor) []weights.StoredTensor {
	common := tensors[0].DType
	mixed := slices.ContainsFunc(tensors, func(t Tensor) bool { return t.DType != common })
	if mixed || common != weights.F16 && common != weights.BF16 {
		common = weights.F32
	}
	out := make([]weights.StoredTensor, len(tensors))
	for i, t := range tensors {
		bytes := int64(elements(t.Shape) * common.Size())
		out[i] = weights.StoredTensor{Name: t.Name, DType: common, Shape: t.Shape, Bytes: bytes,
			Data: &lazy{bytes: bytes, load: func() ([]byte, error) { return finite(t, common) }}}
	}
	return out
}

// finite reads a tensor as type d, and returns an error for infinities and NaN. A conversion from
// another type holds the old and the new data in memory.
func finite(t Tensor, d weights.DType) ([]byte, error) {
	data, err := t.loadFloats()
	if err == nil && t.DType != d {
		data, err = widened(t, data, d)
	}
	if err != nil {
		return nil, err
	}
	size, exponent := d.Size(), exponents[d]
	for at := 0; at < len(data); at += size {
		if binary.LittleEndian.Uint16(data[at+size-2:])&exponent == exponent {
			one := weights.Tensor{DType: d, Data: data[at : at+size]}
			found, err := one.Float32s()
			if err != nil {
				return nil, err
			}
			return nil, malformed(fmt.Sprintf("tensor %s, element %d", quote(t.Name), at/size),
				fmt.Sprint(found[0]), "a finite number")
		}
	}
	return data, nil
}

// exponents are masks of the exponent's bits in the most significant 16 bits of an element. All of
// these bits are set only in infinities and NaN.
var exponents = map[weights.DType]uint16{
	weights.F32: 0x7f80, weights.BF16: 0x7f80, weights.F16: 0x7c00,
}

// widened converts the data of a tensor to another type, a block at a time.
func widened(t Tensor, data []byte, d weights.DType) ([]byte, error) {
	const block = 1 << 16 // bytes, a multiple of every element's size
	out := make([]byte, 0, elements(t.Shape)*d.Size())
	for ; len(data) > 0; data = data[min(block, len(data)):] {
		part := weights.Tensor{Name: t.Name, DType: t.DType, Data: data[:min(block, len(data))]}
		part.Shape = []int{len(part.Data) / t.DType.Size()}
		values, err := part.Float32s()
		if err != nil {
			return nil, err
		}
		out = append(out, weights.FloatTensor(t.Name, d, part.Shape, values).Data...)
	}
	return out, nil
}

// lazy loads data at the first read, and frees the memory once the last byte has been read.
type lazy struct {
	bytes int64
	load  func() ([]byte, error)

	mu   sync.Mutex
	data []byte
}

func (l *lazy) ReadAt(p []byte, off int64) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == nil {
		if l.data, err = l.load(); err != nil {
			return 0, err
		}
	}
	if off < int64(len(l.data)) {
		n = copy(p, l.data[off:])
	}
	if off+int64(n) >= l.bytes {
		l.data = nil
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}
