// Package setting is the form of a table of settings, a row a setting: its name, the field that
// holds it, its range, default and unit, and a line of help. Everything else that has to know a
// setting is made of its row: the check of a request, the flag on a command line, the schema in the
// contract and the line in the documentation.
//
// The package knows no setting itself. A table stands beside the struct whose fields it describes.
package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Row is one setting of a T.
type Row[T any] struct {
	Name string // in requests, answers and errors: cache_size; a flag has - in place of _
	// Field gives the address of the field: a *string, *bool, *int, *float32, *float64 or
	// *[]float32.
	Field   func(*T) any
	Methods []string // the methods of adaptation that the setting belongs to; none: all of them

	Min, Max float64  // of a number, or of each number of a list; both belong to the range
	Above    bool     // Min does not belong to the range
	Below    bool     // Max does not belong to the range
	MaxItems int      // most numbers in a list; the least is 1
	Words    []string // what a string may be

	Unit    string // of the number, in the plural: tokens; "" if it has none
	Default string // what holds where the setting is left out, in words
	Help    string // what the setting is: one line, a noun and no full stop, fields in back quotes
	Note    string // whole sentences that the contract and the documentation have after Help

	NoFlag bool   // commands have no flag of its name
	Limit  string // name of Max, or of MaxItems, in the contract's info.x-limits; "": not listed
	Schema string // name of the contract's schema that describes each of Words
	Search Range  // where lmserve tune looks for a good value; the zero Range: nowhere
}

// Range is a range of numbers, its ends included.
type Range struct{ Min, Max float64 }

// Table is the settings of a T, in the order in which people read them, and in which they are set:
// the address of a field may depend on the settings before it.
type Table[T any] []Row[T]

// Error says that a setting has a value that it cannot have.
type Error struct {
	Name  string // the row's, of a number in a list with its index: gammas[1]
	Found string
	Want  string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("setting %s: found %s, expected %s", e.Name, e.Found, e.Want)
}

// Of are the rows of one method: those that belong to it and to no other, or to all.
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

// wanted says in words what the setting may be: of a list, what each of its numbers may be.
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

// holds says whether a number is in the range; NaN never is.
func (r Row[T]) holds(v float64) bool {
	return v >= r.Min && v <= r.Max && !(r.Above && v == r.Min) && !(r.Below && v == r.Max)
}

// decimal writes a number without an exponent if it is a whole one.
func decimal(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Count writes a number of things, as "1 value" and "2 values".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
