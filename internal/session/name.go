package session

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/google/uuid"
)

// NameCharsMax is the length of the longest name.
const NameCharsMax = 64

// nameWanted says what a name is.
var nameWanted = fmt.Sprintf("a name: 1 to %d of a-z 0-9 . _ -, the first a letter or a digit; "+
	"not %q, and not of the form of an id", NameCharsMax, reservedName)

// reservedName is no session's name: it is a path of the HTTP interface.
const reservedName = "import"

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[a-z0-9][a-z0-9._-]{0,%d}$`, NameCharsMax-1))

// CheckName returns a *FieldError unless a text can be the name of a session. Ids are UUIDs, and no
// name has their form: a name is never taken for an id.
func CheckName(name string) error {
	if nameForm.MatchString(name) && name != reservedName && !isID(name) {
		return nil
	}
	return &FieldError{"name", strconv.Quote(name), nameWanted}
}

// checkNameOrNone is CheckName where "" stands for no name.
func checkNameOrNone(name string) error {
	if name == "" {
		return nil
	}
	return CheckName(name)
}

// isID says whether a text has the form of the ids that sessions get.
func isID(text string) bool {
	const chars = 36 // uuid.Validate takes other spellings, too
	return len(text) == chars && uuid.Validate(text) == nil
}
