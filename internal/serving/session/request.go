package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// NameCharsMax is the maximum length of a name, in characters.
const NameCharsMax = 64

var nameWanted = fmt.Sprintf("a name: 1 to %d characters of a-z 0-9 . _ -, beginning with a "+
	"letter or a digit; not %q, and not in the form of an id", NameCharsMax, reservedName)

// reservedName cannot be a session's name, because it is a path of the HTTP API.
const reservedName = "import"

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[a-z0-9][a-z0-9._-]{0,%d}$`, NameCharsMax-1))

// CheckName returns a *FieldError if a text is not a valid name for a session. A name must not look
// like a UUID, because it could be mistaken for an id.
func CheckName(name string) error {
	if nameForm.MatchString(name) && name != reservedName && !isID(name) {
		return nil
	}
	return &FieldError{"name", strconv.Quote(name), nameWanted}
}

func checkNameOrNone(name string) error {
	if name == "" {
		return nil
	}
	return CheckName(name)
}

func isID(text string) bool {
	const chars = 36 // uuid.Validate also accepts longer forms
	return len(text) == chars && uuid.Validate(text) == nil
}

// Label is a label of a session or, in a request for a list, a condition on labels.
type Label struct {
	Name  string
	Value *string // in a condition, nil means any value
}

func hasLabels(has map[string]string, labels []Label) bool {
	for _, l := range labels {
		value, ok := has[l.Name]
		if !ok || l.Value != nil && *l.Value != value {
			return false
		}
	}
	return true
}

// PatchRequest changes the metadata of a session. Nil and false fields change nothing.
type PatchRequest struct {
	Name *string // new name, as in a ForkRequest; "" removes the name
	// Unlabel removes all labels before Labels sets new ones.
	Unlabel bool
	// Labels maps labels to their new values; nil removes the label.
	Labels map[string]*string
	TTL    *time.Duration // as in a CreateRequest
	// Detach makes a shadow an independent session, which keeps its state.
	Detach bool
}

// checkRequest checks the limits of a request's fields, except the settings.
func checkRequest(r CreateRequest) error {
	if r.TTL < 0 || r.TTL > TTLMax {
		return &FieldError{"ttl_seconds", strconv.FormatFloat(r.TTL.Seconds(), 'g', -1, 64),
			fmt.Sprintf("0 to %d", TTLMax/time.Second)}
	}
	if err := checkSeed(r.Seed); err != nil {
		return err
	}
	if r.History != "" && r.History != HistoryFull && r.History != HistoryTail {
		return &FieldError{"history", strconv.Quote(r.History), HistoryFull + " or " + HistoryTail}
	}
	if n := len(r.Labels); n > LabelsMax {
		return &FieldError{"labels", setting.Count(n, "label"), fmt.Sprintf("at most %d",
			LabelsMax)}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		value := r.Labels[key]
		if n := utf8.RuneCountInString(key); n < 1 || n > LabelKeyCharsMax {
			return &FieldError{"labels", "a name of " + setting.Count(n, "character"),
				fmt.Sprintf("names of 1 to %d characters", LabelKeyCharsMax)}
		}
		if n := utf8.RuneCountInString(value); n > LabelValueCharsMax {
			return &FieldError{fmt.Sprintf("labels[%q]", key), setting.Count(n, "character"),
				fmt.Sprintf("at most %d", LabelValueCharsMax)}
		}
	}
	return nil
}

func checkSeed(seed *uint64) error {
	if seed == nil || *seed <= SeedMax {
		return nil
	}
	return &FieldError{"seed", fmt.Sprint(*seed), fmt.Sprintf("0 to %d", SeedMax)}
}
