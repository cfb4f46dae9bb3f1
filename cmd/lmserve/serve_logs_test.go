package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/internal/serving/session"
)

func TestLogSessionsAreAsTheFlagsSay(t *testing.T) {
	for method, want := range map[string]session.Settings{
		"default": nil, "none": nil,
		"counts": {"method": "counts", "companion": false},
		"static": {"method": "static"},
	} {
		s, err := (&logFlags{method, intake.NameDefault}).sessions()
		require.NoError(t, err, method)
		require.Equal(t, want, s.Settings, method)
		require.Equal(t, method != "none", s.Make, method)
	}
	for _, f := range []logFlags{{"mine", "{a}"}, {"counts", "{"}, {"counts", ""}} {
		_, err := f.sessions()
		require.Error(t, err, f)
	}
}
