package checkpoint

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/nlpodyssey/gopickle/types"
)

// allowed reports whether a pickle may name a class or function. Allowed are the classes and
// functions that make tensors, the reference implementation's modules and vocabulary, and plain
// containers. findClass returns the Go replacement for each class or function.
func allowed(module, name string) bool {
	if module == "collections" && name == "OrderedDict" {
		return true // the pickle library makes OrderedDicts itself
	}
	_, err := findClass(module, name)
	return err == nil
}

// referenceModules are the files of the reference implementation
// (https://github.com/kimiyoung/transformer-xl, folder pytorch) whose classes are in checkpoints.
var referenceModules = []string{
	"mem_transformer", "proj_adaptive_softmax", "utils.proj_adaptive_softmax", "utils.vocabulary",
	"vocabulary", "data_utils",
}

var (
	torchModule = regexp.MustCompile(`^torch\.nn\.modules\.[a-z]+$`)
	className   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// findClass returns the Go replacement for a Python class or function, or an error if a pickle may
// not name it.
func findClass(module, name string) (any, error) {
	switch full := module + "." + name; full {
	case "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2":
		return function(rebuildTensor), nil
	case "torch._utils._rebuild_parameter":
		return function(rebuildParameter), nil
	case "torch.Size", "builtins.set", "__builtin__.set", "collections.Counter":
		return function(sameObject), nil
	// modules saved by PyTorch 1.1 name this function
	case "torch.nn.backends.thnn._get_thnn_function_backend":
		return function(func([]any) (any, error) { return nil, nil }), nil
	}
	if module == "torch" {
		for _, e := range elementTypes {
			if e.class == name {
				return e, nil
			}
		}
	}
	ours := torchModule.MatchString(module) || slices.Contains(referenceModules, module)
	if ours && className.MatchString(name) {
		return moduleClass(module + "." + name), nil
	}
	return nil, &Error{Where: "pickle", Offset: -1, Found: quote(module + "." + name),
		Want: "a class of tensors, of the reference's modules, or of plain containers",
		Kind: ErrClass}
}

// function is a Go replacement for a Python function.
type function func(args []any) (any, error)

// Call implements types.Callable.
func (f function) Call(args ...any) (any, error) { return f(args) }

// moduleClass replaces a PyTorch module class. Its value is the full name of the class.
type moduleClass string

// PyNew implements types.PyNewable.
func (c moduleClass) PyNew(args ...any) (any, error) { return &module{class: string(c)}, nil }

// module replaces a Python object. It keeps only the object's class name and attributes.
type module struct {
	class      string
	attributes map[string]any
}

// PySetState implements types.PyStateSettable.
func (m *module) PySetState(o any) error {
	attributes, err := stringKeys(o)
	m.attributes = attributes
	return err
}

var errArguments = errors.New("arguments of an unsupported type or number")

// sameObject replaces the constructor of a container. Only the content matters, so sameObject
// returns the constructor's argument, or an empty list without argument.
func sameObject(args []any) (any, error) {
	switch len(args) {
	case 0:
		return types.NewList(), nil
	case 1:
		return args[0], nil
	}
	return nil, errArguments
}

// rebuildTensor makes a tensor from the arguments (storage, offset, shape, strides, ...).
func rebuildTensor(args []any) (any, error) {
	if len(args) < 4 || len(args) > 7 {
		return nil, errArguments
	}
	of, isStorage := args[0].(*storage)
	offset, isInt := args[1].(int)
	shape, isShape := intTuple(args[2])
	stride, isStride := intTuple(args[3])
	if !isStorage || !isInt || !isShape || !isStride {
		return nil, errArguments
	}
	v := view{of, int64(offset), shape, stride}
	return v, v.check()
}

// rebuildParameter returns the first of the arguments (tensor, requires_grad, hooks).
func rebuildParameter(args []any) (any, error) {
	if len(args) == 3 {
		if v, ok := args[0].(view); ok {
			return v, nil
		}
	}
	return nil, errArguments
}

func intTuple(o any) ([]int, bool) {
	t, ok := o.(*types.Tuple)
	if !ok {
		return nil, false
	}
	return ints([]any(*t))
}

func ints(list []any) ([]int, bool) {
	out := make([]int, len(list))
	for i, o := range list {
		n, ok := o.(int)
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

type entry struct {
	key   string
	value any
}

// entries returns the entries of a dictionary in order. Keys that are not strings, or that occur
// twice, are errors.
func entries(o any) ([]entry, error) {
	var list []entry
	seen := map[string]bool{}
	add := func(key, value any) error {
		k, ok := key.(string)
		if !ok {
			return malformed("dictionary", fmt.Sprintf("a key of type %T", key), "strings")
		}
		if seen[k] {
			return malformed("dictionary", "key "+quote(k)+" twice", "every key once")
		}
		seen[k] = true
		list = append(list, entry{k, value})
		return nil
	}
	switch d := o.(type) {
	case *types.Dict:
		for _, e := range *d {
			if err := add(e.Key, e.Value); err != nil {
				return nil, err
			}
		}
	case *types.OrderedDict:
		for e := d.List.Front(); e != nil; e = e.Next() {
			// the pickle library stores only this type in List
			o := e.Value.(*types.OrderedDictEntry)
			if err := add(o.Key, o.Value); err != nil {
				return nil, err
			}
		}
	default:
		return nil, malformed("pickle", describe(o), "a dictionary")
	}
	return list, nil
}

func stringKeys(o any) (map[string]any, error) {
	list, err := entries(o)
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, len(list))
	for _, e := range list {
		m[e.key] = e.value
	}
	return m, nil
}

// describe names the kind of an object for an error. The content may be large, so it is left out.
func describe(o any) string {
	switch o := o.(type) {
	case nil:
		return "None"
	case *module:
		return "an object of class " + quote(o.class)
	case view:
		return "a tensor"
	case *types.List:
		return "a list"
	case *types.Tuple:
		return "a tuple"
	case *types.Dict, *types.OrderedDict:
		return "a dictionary"
	case string:
		return "a string"
	case int:
		return "an integer"
	}
	return fmt.Sprintf("an object of type %T", o)
}
