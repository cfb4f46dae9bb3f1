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
// the first wrong value.
func effective(m *model.Model, asked Settings) (stream.Settings, error) {
	set, err := stream.With(m, asked)
	if err != nil {
		return set, fieldError("settings.", err)
	}
	return set, nil
}

// fieldError converts a *setting.Error to a *FieldError; prefix is the path of the settings in the
// request. Another error means that the model cannot serve a setting, although the setting is
// within its range.
func fieldError(prefix string, err error) error {
	if wrong, ok := errors.AsType[*setting.Error](err); ok {
		return &FieldError{prefix + wrong.Name, wrong.Found, wrong.Want}
	}
	return fmt.Errorf("session: settings: %w", err)
}

// reported returns the settings in the form for callers. It returns nil if the settings are unknown
// because the session's head is unreadable.
func reported(s stream.Settings) Settings {
	if s.Method == "" {
		return nil
	}
	return stream.Table.Values(&s)
}

// seedOr returns *seed, or a random seed if seed is nil.
func seedOr(seed *uint64) uint64 {
	if seed != nil {
		return *seed
	}
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) & SeedMax
}
