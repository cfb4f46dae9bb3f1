// Package setting defines tables of settings. A row describes one setting: its name, the field that
// stores it, its range, default and unit, and a line of help. The row determines everything else:
// the check of a request, the flag on a command line, the schema in the contract and the line in
// the documentation.
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

// Row describes one setting of a T.
type Row[T any] struct {
	Name string // name in requests, answers and errors: cache_size; a flag has - for _
	// Field returns the address of the field: a *string, *bool, *int, *float32, *float64 or
	// *[]float32.
	Field   func(*T) any
	Methods []string // methods of adaptation that use the setting; nil means all

	Min, Max float64  // inclusive range of the number, or of each number of a list
	Above    bool     // numbers must be larger than Min
	Below    bool     // numbers must be smaller than Max
	MaxItems int      // maximum length of a list; the minimum is 1
	Words    []string // valid values of a string

	Unit    string // unit of the number, in the plural, such as tokens; "" for none
	Default string // the default, as readers see it
	Help    string // a noun phrase on one line without full stop; fields in back quotes
	Note    string // sentences that follow Help in the contract and the documentation

	NoFlag bool   // commands have no flag for the setting
	Limit  string // name of the maximum in info.x-limits of the contract; "" if not listed
	Schema string // name of the contract's schema that describes each of Words
	Search Range  // range in which lmserve tune searches; the zero Range means no search
}

// Range is a range of numbers that includes both ends.
type Range struct{ Min, Max float64 }

// Table lists the settings of a T in the order in which readers see them. Values are also set in
// this order, since the address of a field may depend on earlier settings.
type Table[T any] []Row[T]

// Error reports a setting with an invalid value.
type Error struct {
	Name  string // name of the setting; a number of a list has its index: gammas[1]
	Found string
	Want  string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("setting %s: found %s, expected %s", e.Name, e.Found, e.Want)
}

// Of returns the rows that a method uses: the rows that name it, and the rows for all methods.
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

// names returns the names of all rows.
func (t Table[T]) names() []string {
	names := make([]string, len(t))
	for i, r := range t {
		names[i] = r.Name
	}
	return names
}

// wanted describes the valid values of the setting or, for a list, of each of its numbers.
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

// decimal formats a number, without an exponent if it is an integer.
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
