package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Flag is the command-line flag of a setting. A Flag implements flag.Value and pflag.Value and
// stores its argument in Values. Table.Set, not Flag, checks the range.
type Flag[T any] struct {
	row  Row[T]
	into Values
}

// Flag returns a command-line flag that stores the setting's value in into.
func (r Row[T]) Flag(into Values) *Flag[T] { return &Flag[T]{r, into} }

// FlagName returns the flag for a setting's name, with - instead of _, such as cache-size for
// cache_size.
func FlagName(name string) string { return strings.ReplaceAll(name, "_", "-") }

// FlagName returns the name of the setting's flag.
func (r Row[T]) FlagName() string { return FlagName(r.Name) }

// FlagUsage returns the help text of the flag: methods of adaptation, meaning, range and default.
func (r Row[T]) FlagUsage() string {
	usage := r.Help
	if len(r.Methods) > 0 {
		usage = strings.Join(r.Methods, ", ") + ": " + usage
	}
	notes := "default: " + r.Default
	if !r.IsBool() {
		notes = r.rangeWithUnit() + "; " + notes
	}
	return strings.ReplaceAll(usage, "`", "") + " (" + notes + ")"
}

// IsBool reports whether the setting is a boolean, whose flag may be given without a value.
func (r Row[T]) IsBool() bool {
	_, is := r.Field(new(T)).(*bool)
	return is
}

// String returns the flag's value, or "" if the flag is not set.
func (f *Flag[T]) String() string {
	if f == nil || f.into[f.row.Name] == nil {
		return ""
	}
	return fmt.Sprint(f.into[f.row.Name])
}

// Type returns the type name that a usage text shows in place of the value.
func (f *Flag[T]) Type() string {
	switch f.row.Field(new(T)).(type) {
	case *string:
		return "string"
	case *bool:
		return "bool"
	case *int:
		return "int"
	case *[]float32:
		return "floats"
	}
	return "float"
}

// Set parses the flag's value. Commas separate the numbers of a list.
func (f *Flag[T]) Set(text string) (err error) {
	var value any
	switch f.row.Field(new(T)).(type) {
	case *string:
		value = text
	case *bool:
		value, err = strconv.ParseBool(text)
	case *int:
		var n int64
		n, err = strconv.ParseInt(text, 0, strconv.IntSize)
		value = int(n)
	case *float32:
		value, err = parseFloat32(text)
	case *float64:
		value, err = strconv.ParseFloat(text, 64)
	case *[]float32:
		var list []float32
		for _, one := range strings.Split(text, ",") {
			v, wrong := parseFloat32(one)
			if list = append(list, v); err == nil {
				err = wrong
			}
		}
		value = list
	}
	if err != nil {
		return fmt.Errorf("found %q, expected %s", text, f.row.wanted())
	}
	f.into[f.row.Name] = value
	return nil
}

func parseFloat32(text string) (float32, error) {
	v, err := strconv.ParseFloat(text, 32)
	return float32(v), err
}
