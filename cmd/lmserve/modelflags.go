package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/txl"
)

type modelFlags struct {
	path      string
	threads   int
	precision kernel.Precision
	lengths   lengthFlags
}

// lengthFlags has the flags that set how far back a model looks. A flag that is not given keeps the
// model's own length.
type lengthFlags struct {
	given            func(name string) bool
	memLen, clampLen int
	sameLength       bool
}

const (
	memLenName     = "mem-len"
	clampLenName   = "clamp-len"
	sameLengthName = "same-length"
)

func (f *lengthFlags) register(c *cobra.Command) {
	f.given = c.Flags().Changed
	c.Flags().IntVar(&f.memLen, memLenName, 0,
		"number of earlier tokens in the memory that each layer attends to; another number "+
			"makes a model with another id (default: the model's)")
	c.Flags().IntVar(&f.clampLen, clampLenName, 0,
		"largest distance between two tokens that attention distinguishes; 0 means no limit "+
			"(default: the model's)")
	c.Flags().BoolVar(&f.sameLength, sameLengthName, false,
		"same attention span, --mem-len tokens, for every position (default: the model's)")
}

// given returns a flag's value, or nil if the command line omits it.
func given[T any](changed func(name string) bool, name string, value *T) *T {
	if changed(name) {
		return value
	}
	return nil
}

func (f *lengthFlags) apply(m *model.Model) (*model.Model, error) {
	l := txl.Lengths{
		MemLen:     given(f.given, memLenName, &f.memLen),
		ClampLen:   given(f.given, clampLenName, &f.clampLen),
		SameLength: given(f.given, sameLengthName, &f.sameLength),
	}
	if l == (txl.Lengths{}) {
		return m, nil
	}
	m, err := m.WithLengths(l)
	if err != nil {
		return nil, usageError{err}
	}
	return m, nil
}

func (f *modelFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "model", "",
		"name (see 'lmserve models') or file of the model (default: the first model of that "+
			"list)")
	f.registerComputing(c)
}

func (f *modelFlags) registerComputing(c *cobra.Command) {
	c.Flags().IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0),
		"number of threads; results do not depend on it")
	precisionFlag(c, &f.precision)
	f.lengths.register(c)
}

func (f *modelFlags) load() (*model.Model, error) {
	load, err := f.loader(f.path)
	if err != nil {
		return nil, err
	}
	return load()
}

// loader finds a model by name or file. The returned function load loads the model and applies the
// flags.
func (f *modelFlags) loader(name string) (load func() (*model.Model, error), err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	place, err := findModel(name)
	if err != nil {
		return nil, err
	}
	return func() (*model.Model, error) { return f.loadAt(place) }, nil
}

// loadAt loads the model at a place and applies the flags.
func (f *modelFlags) loadAt(place model.Place) (*model.Model, error) {
	m, err := place.Load()
	if err != nil {
		return nil, err
	}
	return f.use(m)
}

// modelFinder finds a model by the ID in a session or file, among the models in loaded and places.
type modelFinder struct {
	flags  *modelFlags
	loaded []*model.Model
	places []model.Place
}

// finder returns a finder for the model of the flag --model or, without this flag, for all named
// models.
func (f *modelFlags) finder() (*modelFinder, error) {
	if f.path != "" {
		m, err := f.load()
		return &modelFinder{flags: f, loaded: []*model.Model{m}}, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return &modelFinder{flags: f, places: model.Places(modelFolders())}, nil
}

// finderOfAll returns a finder for sessions of several models: for the model of the flag --model,
// and for all named models.
func (f *modelFlags) finderOfAll() (*modelFinder, error) {
	x, err := f.finder()
	if err == nil && f.path != "" {
		x.places = model.Places(modelFolders())
	}
	return x, err
}

// others returns all named models except m. A file that is not a model is left out.
func (f *modelFlags) others(m *model.Model) (sources []*model.Source) {
	for _, place := range model.Places(modelFolders()) {
		load := func() (*model.Model, error) { return f.loadAt(place) }
		source, other, err := model.NewSource(load)
		if err == nil && other.ID() != m.ID() {
			sources = append(sources, source)
		}
	}
	return sources
}

// find returns the model with an ID. If no model has the ID, it returns a different model; the
// caller reports that the IDs differ. It returns an error only if it finds no model at all.
func (x *modelFinder) find(id string) (*model.Model, error) {
	for _, m := range x.loaded {
		if m.ID() == id {
			return m, nil
		}
	}
	for len(x.places) > 0 {
		m, err := x.flags.loadAt(x.places[0])
		x.places = x.places[1:]
		if err != nil {
			continue // a file in the program's folder need not be a model
		}
		if x.loaded = append(x.loaded, m); m.ID() == id {
			return m, nil
		}
	}
	if len(x.loaded) == 0 {
		return x.flags.load()
	}
	return x.loaded[0], nil
}

func (x *modelFinder) of(
	ctx context.Context, store storage.Store, named string,
) (id string, m *model.Model, err error) {
	found, err := storedNamed(ctx, store, named)
	if err == nil {
		m, err = x.find(session.Describe(found).Model)
	}
	return found.ID, m, err
}

// modelFolders returns the folders in which models are found by name: the program's folder, and the
// data folder of the installation, such as /usr/share/lmserve.
func modelFolders() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	folder := filepath.Dir(program)
	return []string{folder, filepath.Join(filepath.Dir(folder), "share", "lmserve")}
}

// wordsFile is the file name of the model of words in a release.
const wordsFile = "words.safetensors.zst"

// findModel finds a model by name or file. Its error says how to get the model of words.
func findModel(name string) (model.Place, error) {
	place, err := model.Find(name, modelFolders())
	if errors.Is(err, fs.ErrNotExist) && strings.TrimPrefix(name, model.NamePrefix) == "words" {
		err = fmt.Errorf("%w; the archives and packages of a release have the model's file, "+
			"%s, and in a checkout 'make words' puts the file beside bin/lmserve", err, wordsFile)
	}
	return place, err
}

func (f *modelFlags) use(m *model.Model) (*model.Model, error) {
	m.Arithmetic = kernel.Arithmetic{Precision: f.precision}
	return f.lengths.apply(m)
}

func (f *modelFlags) check() error {
	if f.threads < 1 || f.threads > session.ThreadsMax {
		return usagef("--threads is %d, expected 1 to %d", f.threads, session.ThreadsMax)
	}
	return nil
}

// precisionFlag registers --precision, whose value is checked before the command runs.
func precisionFlag(c *cobra.Command, p *kernel.Precision) {
	c.Flags().StringVar((*string)(p), "precision", string(kernel.Float32),
		"precision of matrix products: float32, or bf16 (faster, rounded to 8 bits; needs "+
			"AVX512-BF16 or AMX)")
	c.PreRunE = func(*cobra.Command, []string) error {
		if err := (kernel.Arithmetic{Precision: *p}).Validate(); err != nil {
			return usagef("--precision: %w", err)
		}
		return nil
	}
}
