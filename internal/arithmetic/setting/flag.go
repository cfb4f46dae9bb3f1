package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Flag is a setting on a command line. It implements flag.Value and pflag.Value, and puts what is
// given into Values. Table.Set, which takes the Values, checks the range.
type Flag[T any] struct {
	row  Row[T]
	into Values
}

// Flag returns the row's flag.
func (r Row[T]) Flag(into Values) *Flag[T] { return &Flag[T]{r, into} }

// FlagName is a setting's name as flags are written: cache-size.
func FlagName(name string) string { return strings.ReplaceAll(name, "_", "-") }

// FlagName is the row's name as flags are written.
func (r Row[T]) FlagName() string { return FlagName(r.Name) }

// FlagUsage is the row's line of help: the methods that the setting belongs to, what it is, its
// range and its default.
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

// IsBool says whether the flag may stand without a value.
func (r Row[T]) IsBool() bool {
	_, is := r.Field(new(T)).(*bool)
	return is
}

// String is what was given, "" if nothing was.
func (f *Flag[T]) String() string {
	if f == nil || f.into[f.row.Name] == nil {
		return ""
	}
	return fmt.Sprint(f.into[f.row.Name])
}

// Type is the word for a value in a usage text.
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

// Set reads what is given, a list with commas in it.
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
