package stream

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/sparsemeta"
)

// modelDefault is the documented default of settings whose default depends on the model.
const modelDefault = "the model's"

// skipBelowMax is a limit in bits per token. If all tokens of a vocabulary are equally likely, a
// token costs less.
const skipBelowMax = 32

var dynamicMethods = []string{DynamicSGD, DynamicRMS}

// Table lists every setting that users can choose. Command flags, checks of requests, the API
// contract and docs/settings.md derive from these rows. The method is the first row, because its
// value selects the field that the rows of dynamic evaluation change.
var Table = setting.Table[Settings]{
	{
		Name: "method", Field: func(s *Settings) any { return &s.Method },
		Words: AllMethods(), Schema: "Method", Default: modelDefault,
		Help: "method by which the session adapts",
		Note: "The schema `Method` of the contract describes each. `static` has no companion " +
			"unless `companion` is true; `--method static+companion` asks for both.",
	},
	{
		Name: "chunk", Field: func(s *Settings) any { return &s.Chunk },
		Min: 1, Max: MaxChunk, Limit: "chunk_tokens_max", Unit: "tokens", Default: modelDefault,
		Help: "tokens between two updates of the fast weights",
		Note: "A model may allow fewer.",
	},
	{
		Name: "p", Field: func(s *Settings) any { return &s.Adapt.P },
		Methods: []string{SparseMeta}, Min: 0, Max: 1, Default: modelDefault,
		Help: "probability that an update writes an entry of the fast weights",
		Note: "At 0 the session scores as with the method `static` and the same `companion`.",
	},
	{
		Name: "gammas", Field: func(s *Settings) any { return &s.Adapt.Gammas },
		Methods: []string{SparseMeta}, Min: 0, Max: 1, Default: modelDefault,
		MaxItems: sparsemeta.MaxBanks, Limit: "gammas_max",
		Help: "decay of the gradient average from chunk to chunk, one number for each bank of " +
			"the model",
		Note: "`Model.banks` is the number of banks.",
	},
	{
		Name: "beta1", Field: func(s *Settings) any { return &s.Adapt.Beta1 },
		Methods: []string{SparseMeta}, Min: 0, Max: 1000, Limit: "beta_max", Default: modelDefault,
		Help: "weight of a chunk's gradient in the gradient average",
	},
	{
		Name: "beta2", Field: func(s *Settings) any { return &s.Adapt.Beta2 },
		Methods: []string{SparseMeta}, Min: 0, Max: 1000, Limit: "beta_max", Default: modelDefault,
		Help: "weight of a chunk's gradient added to the average for this chunk alone",
	},
	{
		Name: "skip_below", Field: func(s *Settings) any { return &s.SkipBelow },
		Methods: []string{SparseMeta}, Min: 0, Max: skipBelowMax, Limit: "skip_below_max",
		Unit: "bits", Default: fmt.Sprint(SkipBelowDefault),
		Help: "bits per token below which the network does not learn from a chunk",
		Note: "At 0, or without a companion of counts, the network learns from every chunk. " +
			"Text that is " +
			"learned line by line is never skipped.",
	},
	{
		Name: "rate", Field: func(s *Settings) any { return &s.Dynamic().Rate },
		Methods: dynamicMethods, Min: 0, Max: 1000, Limit: "rate_max", Default: modelDefault,
		Search: setting.Range{Min: 1e-8, Max: 1e3},
		Help:   "learning rate",
		Note:   "At 0 the session scores as with the method `static` and the same `companion`.",
	},
	{
		Name: "decay", Field: func(s *Settings) any { return &s.Dynamic().Decay },
		Methods: dynamicMethods, Min: 0, Max: 1, Default: modelDefault,
		Search: setting.Range{Min: 1e-6, Max: 1},
		Help:   "fraction of the fast weights that each update removes",
		Note: "`dynamic-rms` multiplies the fraction by r/R. Here r is the root mean square of " +
			"the weight's gradients, and R is the mean of r over all weights.",
	},
	{
		Name: "floor", Field: func(s *Settings) any { return &s.Dynamic().Floor },
		Methods: []string{DynamicRMS}, Min: 0, Max: 1000, Limit: "floor_max", Default: modelDefault,
		Search: setting.Range{Min: 1e-3, Max: 1e2},
		Help:   "constant added to a weight's root mean square, relative to the mean of its matrix",
		Note:   "With a smaller constant, the weights diverge sooner.",
	},
	{
		Name: "cache_size", Field: func(s *Settings) any { return &s.Cache.Size },
		Methods: []string{Cache}, Min: 1, Max: sparsemeta.CacheSizeMax, Limit: "cache_size_max",
		Unit: "tokens", Default: modelDefault,
		Search: setting.Range{Min: 1, Max: sparsemeta.CacheSizeMax},
		Help:   "number of tokens that the cache holds",
		Note:   "Memory and time grow with the number.",
	},
	{
		Name: "theta", Field: func(s *Settings) any { return &s.Cache.Theta },
		Methods: []string{Cache}, Min: 0, Max: sparsemeta.CacheThetaMax, Limit: "theta_max",
		Default: modelDefault,
		Search:  setting.Range{Min: 1e-3, Max: sparsemeta.CacheThetaMax},
		Help:    "sharpness with which the cache prefers states like the current one",
		Note:    "At 0 all states count equally.",
	},
	{
		Name: "lambda", Field: func(s *Settings) any { return &s.Cache.Lambda },
		Methods: []string{Cache}, Min: 0, Max: 1, Below: true, Default: modelDefault,
		Search: setting.Range{Min: 1e-3, Max: 0.99},
		Help:   "weight of the cache in the mixture with the network",
		Note:   "At 0 the session scores as with the method `static` and the same `companion`.",
	},
	{
		Name: "companion", Field: func(s *Settings) any { return &s.Companion },
		Default: "true; false with method static",
		Help:    "mixing of the model's predictions with statistics of the session's text",
		Note: "With a model of bytes, the statistics are a table of counts. With a model of " +
			"words, they are the cache of the method `cache`, with its settings. Without a " +
			"companion, the model predicts alone.",
	},
	{
		Name: "companion_bytes", Field: func(s *Settings) any { return &s.CompanionBytes },
		Min: companion.TableBytesMin, Max: companion.TableBytesMax, Limit: "companion_bytes_max",
		Unit: "bytes", Default: modelDefault,
		Help: "size of the companion's table of counts, a power of two",
	},
	{
		Name: "companion_static", Field: func(s *Settings) any { return &s.CompanionStatic },
		Methods: []string{SparseMeta}, Default: modelDefault,
		Help: "static model as a third part of the companion's mixture",
		Note: "The static model then reads the text too, but recomputes only the layers that " +
			"adapt. The setting has no effect with a model of words.",
	},
	{
		Name: "baseline", Field: func(s *Settings) any { return &s.Baseline },
		Default: "false", NoFlag: true,
		Help: "scoring of every chunk with the static model as well",
		Note: "The static model has the slow weights alone, and no companion. A chunk is scored " +
			"again from the first layer that adapts. This costs less if the companion " +
			"mixes in the static model anyway.",
	},
}

// Asked returns the settings that differ from the model's defaults for the method, by their names
// in Table. The method is included if it is not the model's default. The function With makes the
// same settings from the returned values.
func Asked(m *model.Model, set Settings) setting.Values {
	of := DefaultsFor(m, set.Method)
	asked, known := Table.Values(&set), Table.Values(&of)
	if own := Defaults(m).Method; own != set.Method {
		known["method"], known["companion"] = own, set.Method != Static
	}
	maps.DeleteFunc(asked, func(name string, value any) bool {
		return reflect.DeepEqual(value, known[name])
	})
	return asked
}

// Recorded returns the settings that a file must contain so that later versions of the program
// compute the same scores. These are the settings from Asked, and the method's settings whose
// default comes from the program instead of the model. The baseline does not change scores, so
// Recorded omits the baseline.
func Recorded(m *model.Model, set Settings) setting.Values {
	recorded, all := Asked(m, set), Table.Values(&set)
	for _, row := range Table {
		of := row.Methods == nil || slices.Contains(row.Methods, set.Method)
		if of && row.Default != modelDefault && row.Name != "baseline" {
			recorded[row.Name] = all[row.Name]
		}
	}
	return recorded
}

// With returns the model's default settings, changed to the given values. A *setting.Error names
// the first value that is out of range or that the model does not support. Settings of other
// methods are also checked for range, but have no effect. The method Static has no companion unless
// the values request a companion.
func With(m *model.Model, asked setting.Values) (Settings, error) { return with(Table, m, asked) }

func with(table setting.Table[Settings], m *model.Model, asked setting.Values) (Settings, error) {
	set := Defaults(m)
	set.Companion = asked["method"] != Static
	banks := len(set.Adapt.Gammas)
	if err := table.Set(&set, asked); err != nil {
		return set, err
	}
	if what := lacks(m, set.Method); what != "" {
		want := "another: model " + m.Name + " has no " + what
		return set, &setting.Error{Name: "method", Found: set.Method, Want: want}
	}
	if least := ChunkMin(m); set.Chunk < least {
		want := fmt.Sprintf("%d to %d for a model of words", least, MaxChunk)
		return set, &setting.Error{Name: "chunk", Found: fmt.Sprint(set.Chunk), Want: want}
	}
	if n := len(set.Adapt.Gammas); n != banks {
		want := setting.Count(banks, "value") + ", one for each bank of the model"
		return set, &setting.Error{Name: "gammas", Found: setting.Count(n, "value"), Want: want}
	}
	if set.Baseline && m.Uniform {
		want := "false: model " + m.Name + " has no " + network
		return set, &setting.Error{Name: "baseline", Found: "true", Want: want}
	}
	if n := set.CompanionBytes; n&(n-1) != 0 {
		return set, &setting.Error{
			Name: "companion_bytes", Found: fmt.Sprint(n), Want: companion.TableBytesWanted,
		}
	}
	return set, set.Validate(m)
}
