// Package setting defines tables of settings. A row describes one setting: its name, the field that
// stores it, its range, default and unit, and a line of help. All other descriptions derive from
// the row: the check of a request, the command-line flag, the OpenAPI schema, and the line in the
// documentation.
//
// The package contains no settings itself. A table is defined next to the struct whose fields it
// describes.
package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Row describes one setting, stored in a field of struct T.
type Row[T any] struct {
	Name string // name in requests, answers and errors, such as cache_size
	// Field returns the address of the setting's field: a *string, *bool, *int, *float32, *float64
	// or *[]float32.
	Field   func(*T) any
	Methods []string // methods of adaptation that use the setting; nil means all

	Min, Max float64  // inclusive range of the number, or of each number of a list
	Above    bool     // excludes Min from the range
	Below    bool     // excludes Max from the range
	MaxItems int      // maximum length of a list; the minimum is 1
	Words    []string // valid values of a string

	Unit    string // unit of the number, in the plural, such as tokens; "" for none
	Default string // default in help and documentation, as a literal or in words
	Help    string // noun phrase without full stop; names of fields in back quotes
	Note    string // sentences after Help in the OpenAPI contract and the documentation

	NoFlag bool
	// name of the maximum in info.x-limits of the OpenAPI contract; "" if not listed
	Limit  string
	Schema string // name of the OpenAPI schema that describes Words; "" for none
	Search Range  // range in which lmserve tune searches; the zero Range means no search
}

// Range is the closed interval from Min to Max.
type Range struct{ Min, Max float64 }

// Table lists the settings of a T in the order of the documentation. Set follows this order,
// because the address of a field may depend on earlier settings.
type Table[T any] []Row[T]

// Error reports a setting with an invalid value.
type Error struct {
	Name  string // name of the setting, with an index for a list element: gammas[1]
	Found string
	Want  string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("setting %s: found %s, expected %s", e.Name, e.Found, e.Want)
}

// Of returns the settings that a method of adaptation uses, including those for all methods.
func (t Table[T]) Of(method string) Table[T] {
	var rows Table[T]
	for _, r := range t {
		if len(r.Methods) == 0 {
			rows = append(rows, r)
		}
		for _, m := range r.Methods {
			if m == method {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func (t Table[T]) names() []string {
	names := make([]string, len(t))
	for i, r := range t {
		names[i] = r.Name
	}
	return names
}

// wanted describes the valid values of the setting or, for a list, of each number.
func (r Row[T]) wanted() string {
	switch r.Field(new(T)).(type) {
	case *string:
		return strings.Join(r.Words, ", ")
	case *bool:
		return "true or false"
	}
	from, to := "", " to "
	if r.Above {
		from = "above "
	}
	if r.Below {
		to = " to less than "
	}
	return from + decimal(r.Min) + to + decimal(r.Max)
}

// holds reports whether a number is in the range of the setting. NaN is in no range.
func (r Row[T]) holds(v float64) bool {
	return v >= r.Min && v <= r.Max && !(r.Above && v == r.Min) && !(r.Below && v == r.Max)
}

func decimal(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Count formats a number of things, such as "1 value" or "2 values".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
