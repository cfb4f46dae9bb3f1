package setting

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Values maps names of settings to values. A value has the type of its field: string, bool, int,
// float32, float64 or []float32. In a request, a missing name means the default. The settings of a
// session always include every name.
type Values map[string]any

// Clone returns a copy that shares no memory with v.
func (v Values) Clone() Values {
	c := make(Values, len(v))
	for name, value := range v {
		c[name] = copied(value)
	}
	return c
}

func copied(value any) any {
	if list, ok := value.([]float32); ok {
		return slices.Clone(list)
	}
	return value
}

// Set sets the fields of a T to the given values and ignores empty lists. An *Error names the first
// value that has no row, has another type, or is out of range. After an error, some fields may
// already be set.
func (t Table[T]) Set(into *T, asked Values) error {
	names := t.names()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if !slices.Contains(names, name) {
			return unknown(name, names)
		}
	}
	for _, r := range t {
		value, given := asked[r.Name]
		if list, is := value.([]float32); !given || is && len(list) == 0 {
			continue
		}
		if err := r.set(into, value); err != nil {
			return err
		}
		if err := r.Check(into); err != nil {
			return err
		}
	}
	return nil
}

func unknown(name string, names []string) *Error {
	return &Error{name, "an unknown setting", strings.Join(names, ", ")}
}

// Read decodes JSON values to the types of their fields. An *Error names the first value that has
// no row or has another type. Read does not check ranges.
func (t Table[T]) Read(written map[string]json.RawMessage) (Values, error) {
	values := make(Values, len(written))
	for _, name := range slices.Sorted(maps.Keys(written)) {
		i := slices.IndexFunc(t, func(r Row[T]) bool { return r.Name == name })
		if i < 0 {
			return nil, unknown(name, t.names())
		}
		of := new(T)
		if err := json.Unmarshal(written[name], t[i].Field(of)); err != nil {
			return nil, &Error{name, string(written[name]), t[i].wanted()}
		}
		values[name] = t[i].value(of)
	}
	return values, nil
}

// Check returns an *Error for the first setting of a T that is out of range.
func (t Table[T]) Check(of *T) error {
	for _, r := range t {
		if err := r.Check(of); err != nil {
			return err
		}
	}
	return nil
}

// Values returns the values of all settings in a T.
func (t Table[T]) Values(of *T) Values {
	values := make(Values, len(t))
	for _, r := range t {
		values[r.Name] = copied(r.value(of))
	}
	return values
}

// Check returns an *Error if the setting in a T is out of range.
func (r Row[T]) Check(of *T) error {
	switch value := r.value(of).(type) {
	case string:
		if !slices.Contains(r.Words, value) {
			return &Error{r.Name, strconv.Quote(value), r.wanted()}
		}
	case []float32:
		if n := len(value); n < 1 || n > r.MaxItems {
			return &Error{r.Name, Count(n, "value"), fmt.Sprintf("1 to %d values", r.MaxItems)}
		}
		for i, v := range value {
			if !r.holds(float64(v)) {
				return &Error{fmt.Sprintf("%s[%d]", r.Name, i), fmt.Sprint(v), r.wanted()}
			}
		}
	case int, float32, float64:
		if !r.holds(r.Number(of)) {
			return &Error{r.Name, fmt.Sprint(value), r.wanted()}
		}
	}
	return nil
}

// Number returns the value of the setting in a T. Number panics if the setting is not a number.
func (r Row[T]) Number(of *T) float64 {
	switch p := r.Field(of).(type) {
	case *int:
		return float64(*p)
	case *float32:
		return float64(*p)
	case *float64:
		return *p
	}
	panic("setting: " + r.Name + " is not a number")
}

// SetNumber converts a number to the type of the setting's field and sets the field of a T.
// SetNumber does not check the range.
func (r Row[T]) SetNumber(into *T, v float64) {
	switch p := r.Field(into).(type) {
	case *int:
		*p = int(v)
	case *float32:
		*p = float32(v)
	case *float64:
		*p = v
	default:
		panic("setting: " + r.Name + " is not a number")
	}
}

// Whole reports whether the setting is an integer.
func (r Row[T]) Whole() bool {
	_, whole := r.Field(new(T)).(*int)
	return whole
}

func (r Row[T]) value(of *T) any {
	switch p := r.Field(of).(type) {
	case *string:
		return *p
	case *bool:
		return *p
	case *int:
		return *p
	case *float32:
		return *p
	case *float64:
		return *p
	case *[]float32:
		return *p
	default:
		panic(fmt.Sprintf("setting: %s has the type %T, which rows do not support", r.Name, p))
	}
}

func (r Row[T]) set(into *T, value any) error {
	switch p := r.Field(into).(type) {
	case *string:
		return assign(r.Name, p, value)
	case *bool:
		return assign(r.Name, p, value)
	case *int:
		return assign(r.Name, p, value)
	case *float32:
		return assign(r.Name, p, value)
	case *float64:
		return assign(r.Name, p, value)
	case *[]float32:
		err := assign(r.Name, p, value)
		*p = slices.Clone(*p)
		return err
	default:
		panic(fmt.Sprintf("setting: %s has the type %T, which rows do not support", r.Name, p))
	}
}

func assign[V any](name string, into *V, value any) error {
	v, ok := value.(V)
	if !ok {
		found := fmt.Sprintf("a value of type %T", value)
		return &Error{name, found, fmt.Sprintf("one of type %T", v)}
	}
	*into = v
	return nil
}
