package session

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/setting"
	"github.com/lmserve/lmserve/internal/stream"
)

// effective gives the model's default settings, and in their place what is asked for. A *FieldError
// names the first value that is out of its range or that the model cannot serve.
func effective(m *model.Model, asked Settings) (stream.Settings, error) {
	set, err := stream.With(m, asked)
	if err != nil {
		return set, fieldError("settings.", err)
	}
	return set, nil
}

// fieldError makes a *FieldError of a *setting.Error; prefix is where in the request the setting is.
// Any other error is one of the model, which cannot serve a setting that is in its range.
func fieldError(prefix string, err error) error {
	var wrong *setting.Error
	if errors.As(err, &wrong) {
		return &FieldError{prefix + wrong.Name, wrong.Found, wrong.Want}
	}
	return fmt.Errorf("session: settings: %w", err)
}

// reported is the form in which callers see the settings in force; nil for those of a session whose
// head could not be read.
func reported(s stream.Settings) Settings {
	if s.Method == "" {
		return nil
	}
	return stream.Table.Values(&s)
}

// checkRequest holds the fields of a request that are beside its settings against their limits.
func checkRequest(r CreateRequest) error {
	if r.TTL < 0 || r.TTL > TTLMax {
		return &FieldError{"ttl_seconds", strconv.FormatFloat(r.TTL.Seconds(), 'g', -1, 64), fmt.Sprintf("0 to %d", TTLMax/time.Second)}
	}
	if err := checkSeed(r.Seed); err != nil {
		return err
	}
	if r.History != "" && r.History != HistoryFull && r.History != HistoryTail {
		return &FieldError{"history", strconv.Quote(r.History), HistoryFull + " or " + HistoryTail}
	}
	if n := len(r.Labels); n > LabelsMax {
		return &FieldError{"labels", setting.Count(n, "label"), fmt.Sprintf("at most %d", LabelsMax)}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		value := r.Labels[key]
		if n := utf8.RuneCountInString(key); n < 1 || n > LabelKeyCharsMax {
			return &FieldError{"labels", "a name of " + setting.Count(n, "character"), fmt.Sprintf("names of 1 to %d characters", LabelKeyCharsMax)}
		}
		if n := utf8.RuneCountInString(value); n > LabelValueCharsMax {
			return &FieldError{fmt.Sprintf("labels[%q]", key), setting.Count(n, "character"), fmt.Sprintf("at most %d", LabelValueCharsMax)}
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

// seedOr gives the seed, or one drawn at random.
func seedOr(seed *uint64) uint64 {
	if seed != nil {
		return *seed
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) & SeedMax
}
