package session

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
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

// fieldError makes a *FieldError of a *setting.Error; prefix is where in the request the setting
// is. Any other error is one of the model, which cannot serve a setting that is in its range.
func fieldError(prefix string, err error) error {
	if wrong, ok := errors.AsType[*setting.Error](err); ok {
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

// seedOr gives the seed, or one drawn at random.
func seedOr(seed *uint64) uint64 {
	if seed != nil {
		return *seed
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) & SeedMax
}
