package checkpoint

import (
	"slices"
	"strconv"

	"github.com/nlpodyssey/gopickle/types"
)

// state has the tensors of a model in a pickle. If the pickle contains a whole module, state also
// has the module's attributes.
type state struct {
	tensors []Tensor
	// attributes of the module and of some submodules, by name; nil for a state dict
	attributes map[string]any
}

// wrappers are the usual keys of the model in a dictionary that also contains other data.
var wrappers = []string{"state_dict", "model_state_dict", "model"}

// stateOf reads a checkpoint's object: a module, a state dict, or a dictionary that has a module or
// state dict under a key in wrappers.
func stateOf(object any) (*state, error) {
	if _, isModule := object.(*module); !isModule {
		list, err := entries(object)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if _, isTensor := e.value.(view); !isTensor && slices.Contains(wrappers, e.key) {
				object = e.value
			}
		}
	}
	if m, ok := object.(*module); ok {
		w := walker{state: &state{attributes: map[string]any{}}, seen: map[string]bool{}}
		return w.state, w.walk(m, "", 0)
	}
	list, err := entries(object)
	if err != nil {
		return nil, err
	}
	s := &state{}
	for _, e := range list {
		v, ok := e.value.(view)
		if !ok {
			return nil, malformed("state dict, key "+quote(e.key), describe(e.value), "a tensor")
		}
		s.tensors = append(s.tensors, named(v, e.key))
	}
	return s, nil
}

func named(v view, name string) Tensor {
	t := v.tensor()
	t.Name = name
	return t
}

// walker collects the tensors of a module and its submodules, as PyTorch's state_dict does.
type walker struct {
	state   *state
	seen    map[string]bool
	entries int
}

func (w *walker) walk(m *module, prefix string, depth int) error {
	if depth > maxModuleDepth {
		return tooLarge("module "+quote(prefix), "modules nested too deeply",
			"at most "+strconv.Itoa(maxModuleDepth)+" levels")
	}
	w.note(m, prefix)
	for _, part := range []string{"_parameters", "_buffers"} {
		list, err := w.entriesOf(m, part, prefix)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := w.tensor(prefix+e.key, e.value); err != nil {
				return err
			}
		}
	}
	children, err := w.entriesOf(m, "_modules", prefix)
	if err != nil {
		return err
	}
	for _, e := range children {
		child, ok := e.value.(*module)
		if !ok && e.value != nil {
			return malformed("module "+quote(prefix+e.key), describe(e.value), "a module")
		}
		if ok {
			if err := w.walk(child, prefix+e.key+".", depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// entriesOf returns the entries of the dictionary in a module's attribute `part`, or nil if the
// module lacks the attribute. The total number of entries is limited.
func (w *walker) entriesOf(m *module, part, prefix string) ([]entry, error) {
	value, ok := m.attributes[part]
	if !ok {
		return nil, nil
	}
	where := "module " + quote(prefix) + ", " + part
	list, err := entries(value)
	if e, ok := err.(*Error); ok {
		e.Where = where
	}
	if err != nil {
		return nil, err
	}
	if w.entries += len(list); w.entries > maxModuleEntries {
		return nil, tooLarge(where, "too many modules and parameters",
			"at most "+strconv.Itoa(maxModuleEntries)+", counted wherever they occur")
	}
	for _, e := range list {
		if err := checkName(prefix + e.key); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// tensor adds a parameter or a buffer. Python's None, which is nil here, adds nothing.
func (w *walker) tensor(name string, value any) error {
	if value == nil {
		return nil
	}
	v, ok := value.(view)
	if !ok {
		return malformed("parameter "+quote(name), describe(value), "a tensor")
	}
	if w.seen[name] {
		return malformed("parameter "+quote(name), "a duplicate name", "every name once")
	}
	w.seen[name] = true
	w.state.tensors = append(w.state.tensors, named(v, name))
	return nil
}

// attributesOf lists the attributes of each module that determine the configuration. The keys are
// prefixes of parameter names; the key "" is the whole model.
var attributesOf = map[string][]string{
	"": {
		"tgt_len", "mem_len", "clamp_len", "same_length", "attn_type", "sample_softmax",
	},
	"word_emb.":                     {"cutoffs"},
	"layers.0.dec_attn.":            {"pre_lnorm"},
	"layers.0.dec_attn.layer_norm.": {"eps"},
}

func (w *walker) note(m *module, prefix string) {
	for _, name := range attributesOf[prefix] {
		value, ok := m.attributes[name]
		if !ok {
			continue
		}
		if list, isList := value.(*types.List); isList {
			value = []any(*list)
		}
		w.state.attributes[name] = value
	}
}
