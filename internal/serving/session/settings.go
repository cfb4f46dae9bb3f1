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

// effective returns the requested settings, completed by the model's defaults. A *FieldError names
// the first value that is out of range or that the model cannot serve.
func effective(m *model.Model, asked Settings) (stream.Settings, error) {
	set, err := stream.With(m, asked)
	if err != nil {
		return set, fieldError("settings.", err)
	}
	return set, nil
}

// fieldError makes a *FieldError from a *setting.Error; prefix is the path of the settings in the
// request. Any other error says that the model cannot serve a setting, although the setting is
// within its range.
func fieldError(prefix string, err error) error {
	if wrong, ok := errors.AsType[*setting.Error](err); ok {
		return &FieldError{prefix + wrong.Name, wrong.Found, wrong.Want}
	}
	return fmt.Errorf("session: settings: %w", err)
}

// reported returns the settings in the form for callers, or nil if the settings are not known
// because the session's head could not be read.
func reported(s stream.Settings) Settings {
	if s.Method == "" {
		return nil
	}
	return stream.Table.Values(&s)
}

// seedOr returns the seed, or a random one if it is nil.
func seedOr(seed *uint64) uint64 {
	if seed != nil {
		return *seed
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) & SeedMax
}
