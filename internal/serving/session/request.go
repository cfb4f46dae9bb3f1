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

// This file is what requests give a session beside its settings: name, labels, TTL, history, seed.

// NameCharsMax is the length of the longest name.
const NameCharsMax = 64

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

// Label is a label that a session has, or one that it is looked for by.
type Label struct {
	Name  string
	Value *string // nil: any
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

// PatchRequest changes what a session keeps beside its text. What is left out stays as it is.
type PatchRequest struct {
	Name *string // as in a ForkRequest; to "" it takes the name away
	// Unlabel takes all labels away before those of Labels are set.
	Unlabel bool
	// Labels are set to these values; one without a value is taken away.
	Labels   map[string]*string
	TTL      *time.Duration   // as in a CreateRequest
	Feedback *FeedbackRequest // nil: none
	// Detach makes a session of its own of a shadow, which stays as it is from then on.
	Detach bool
}

// checkRequest holds the fields of a request that are beside its settings against their limits.
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
