package session

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// effective fills in the model's defaults and holds every field against its limits: a *FieldError names the first that is outside.
func effective(m *model.Model, s Settings) (stream.Settings, error) {
	set := stream.Defaults(m)
	set.Baseline = s.Baseline
	for _, check := range []func(*model.Model, Settings, *stream.Settings) error{
		useMethod, useChunk, useP, useGammas, useBetas, useDynamic, useCache,
	} {
		if err := check(m, s, &set); err != nil {
			return set, err
		}
	}
	if err := set.Validate(m); err != nil { // what is left can only be wrong with the model
		return set, fmt.Errorf("session: settings: %w", err)
	}
	return set, nil
}

func useMethod(m *model.Model, s Settings, set *stream.Settings) error {
	if s.Method == "" {
		return nil
	}
	set.Method = s.Method
	switch {
	case !slices.Contains(stream.Methods(), s.Method):
		return &FieldError{"settings.method", strconv.Quote(s.Method), strings.Join(stream.Methods(), ", ")}
	case s.Method == MethodSparseMeta && m.Learner == nil:
		return &FieldError{"settings.method", s.Method, "another: the model has no meta-learners"}
	case s.Method == MethodDynamicRMS && m.Statistics == nil:
		return &FieldError{"settings.method", s.Method, "another: the model has no gradient statistics"}
	}
	return nil
}

func useChunk(_ *model.Model, s Settings, set *stream.Settings) error {
	if s.Chunk == 0 {
		return nil
	}
	set.Chunk = s.Chunk
	return checkRange("settings.chunk", s.Chunk, 1, ChunkTokensMax)
}

func useP(_ *model.Model, s Settings, set *stream.Settings) error {
	if s.P == nil {
		return nil
	}
	set.Adapt.P = *s.P
	return checkRange("settings.p", *s.P, 0, 1)
}

func useGammas(_ *model.Model, s Settings, set *stream.Settings) error {
	if len(s.Gammas) == 0 {
		return nil
	}
	if banks := len(set.Adapt.Gammas); len(s.Gammas) != banks {
		return &FieldError{"settings.gammas", count(len(s.Gammas), "value"), count(banks, "value") + ", one for each bank of the model"}
	}
	for i, gamma := range s.Gammas {
		if err := checkRange(fmt.Sprintf("settings.gammas[%d]", i), gamma, 0, 1); err != nil {
			return err
		}
	}
	set.Adapt.Gammas = slices.Clone(s.Gammas)
	return nil
}

func useBetas(_ *model.Model, s Settings, set *stream.Settings) error {
	return cmp.Or(
		use(&set.Adapt.Beta1, "settings.beta1", s.Beta1, BetaMax),
		use(&set.Adapt.Beta2, "settings.beta2", s.Beta2, BetaMax))
}

func useDynamic(_ *model.Model, s Settings, set *stream.Settings) error {
	dynamic := set.Dynamic()
	return cmp.Or(
		use(&dynamic.Rate, "settings.rate", s.Rate, RateMax),
		use(&dynamic.Decay, "settings.decay", s.Decay, 1),
		use(&dynamic.Floor, "settings.floor", s.Floor, FloorMax))
}

func useCache(_ *model.Model, s Settings, set *stream.Settings) error {
	if s.CacheSize != 0 {
		set.Cache.Size = s.CacheSize
	}
	if s.Lambda != nil && *s.Lambda == 1 {
		return &FieldError{"settings.lambda", "1", "0 to less than 1"}
	}
	return cmp.Or(
		checkRange("settings.cache_size", set.Cache.Size, 1, CacheSizeMax),
		use(&set.Cache.Theta, "settings.theta", s.Theta, ThetaMax),
		use(&set.Cache.Lambda, "settings.lambda", s.Lambda, 1))
}

// use sets a number that was asked for, from 0 to most.
func use(set *float32, field string, asked *float32, most float32) error {
	if asked == nil {
		return nil
	}
	*set = *asked
	return checkRange(field, *asked, 0, most)
}

// reported is the form in which callers see settings in force.
func reported(s stream.Settings) Settings {
	dynamic := s.Dynamic()
	return Settings{
		Method:    s.Method,
		Chunk:     s.Chunk,
		P:         &s.Adapt.P,
		Gammas:    slices.Clone(s.Adapt.Gammas),
		Beta1:     &s.Adapt.Beta1,
		Beta2:     &s.Adapt.Beta2,
		Rate:      &dynamic.Rate,
		Decay:     &dynamic.Decay,
		Floor:     &dynamic.Floor,
		CacheSize: s.Cache.Size,
		Theta:     &s.Cache.Theta,
		Lambda:    &s.Cache.Lambda,
		Baseline:  s.Baseline,
	}
}

// checkRequest holds what is beside the settings against its limits.
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
		return &FieldError{"labels", count(n, "label"), fmt.Sprintf("at most %d", LabelsMax)}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		value := r.Labels[key]
		if n := utf8.RuneCountInString(key); n < 1 || n > LabelKeyCharsMax {
			return &FieldError{"labels", "a name of " + count(n, "character"), fmt.Sprintf("names of 1 to %d characters", LabelKeyCharsMax)}
		}
		if n := utf8.RuneCountInString(value); n > LabelValueCharsMax {
			return &FieldError{fmt.Sprintf("labels[%q]", key), count(n, "character"), fmt.Sprintf("at most %d", LabelValueCharsMax)}
		}
	}
	return nil
}

func checkSeed(seed *uint64) error {
	if seed == nil {
		return nil
	}
	return checkRange("seed", *seed, 0, SeedMax)
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

// checkRange returns a *FieldError unless lo <= value <= hi; NaN is outside.
func checkRange[T int | uint64 | float32 | float64](field string, value, lo, hi T) error {
	if value >= lo && value <= hi {
		return nil
	}
	return &FieldError{field, fmt.Sprint(value), fmt.Sprintf("%s to %s", plain(float64(lo)), plain(float64(hi)))}
}

// plain writes a limit without an exponent.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
