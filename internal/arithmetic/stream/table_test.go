package stream

import (
	"flag"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// out is a new row, for a field that the computation already reads.
var out = setting.Row[Settings]{
	Name: "out_factor", Field: func(s *Settings) any { return &s.Adapt.Out },
	Methods: []string{SparseMeta},
	Min:     0, Max: 2, Above: true, Default: "the model's", Help: "the factor on what the " +
		"meta-learners write",
}

// A new setting needs only a row in the table. The row gives the setting a flag, a checked range
// and an effect on the stream, and the setting is reported.
func TestRowIsEnoughToServeSetting(t *testing.T) {
	m, table := testModel(t), append(Table[:len(Table):len(Table)], out)
	given := func(args ...string) (setting.Values, error) {
		asked := setting.Values{}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		for _, row := range table {
			flags.Var(row.Flag(asked), row.FlagName(), row.FlagUsage())
		}
		return asked, flags.Parse(args)
	}
	score := func(args ...string) float64 {
		asked, err := given(args...)
		require.NoError(t, err)
		set, err := with(table, m, asked)
		require.NoError(t, err)
		w, s := NewWorker(m, 1), New(m, set)
		defer w.Close()
		w.Feed(s, []byte(text[:4*testChunk]), nil)
		return s.Tally.Bits
	}
	require.NotEqual(t, score(), score("--out-factor", "1.5"))
	require.Equal(t, score("--method", "static"), score("--method", "static", "--out-factor",
		"1.5"))

	for _, wrong := range []string{"0", "-1", "2.5", "NaN", "+Inf"} {
		asked, err := given("--out-factor", wrong)
		require.NoError(t, err)
		_, err = with(table, m, asked)
		require.EqualError(t, err, "setting out_factor: found "+wrong+", expected above 0 to 2")
	}
	_, err := given("--out-factor", "big")
	require.ErrorContains(t, err, `found "big", expected above 0 to 2`)

	set, err := with(table, m, setting.Values{"out_factor": float32(1.5)})
	require.NoError(t, err)
	require.Equal(t, float32(1.5), table.Values(&set)["out_factor"])
	require.Equal(t, "sparse-meta: the factor on what the meta-learners write (above 0 to 2; "+
		"default: the model's)", out.FlagUsage())
}

func TestSettingsInForceCanBeAskedFor(t *testing.T) {
	m := testModel(t)
	for _, method := range Methods() {
		want, err := With(m, setting.Values{"method": method, "chunk": 7, "rate": float32(.25),
			"theta": float32(2), "baseline": true})
		require.NoError(t, err)
		got, err := With(m, Table.Values(&want))
		require.NoError(t, err)
		require.Equal(t, want, got, method)
		require.Equal(t, float32(.25), want.Dynamic().Rate, method)
	}
}

func TestEveryRangeOfTheTableIsHeld(t *testing.T) {
	m := testModel(t)
	for _, row := range Table {
		for _, beyond := range []float64{row.Min - 1, row.Max + 1, math.NaN()} {
			asked := setting.Values{}
			name := row.Name
			switch row.Field(new(Settings)).(type) {
			case *int:
				if math.IsNaN(beyond) {
					continue
				}
				asked[name] = int(beyond)
			case *float32:
				asked[name] = float32(beyond)
			case *float64:
				asked[name] = beyond
			case *[]float32:
				asked[name] = []float32{0, float32(beyond)}
				name += "[1]"
			default:
				continue
			}
			_, err := With(m, asked)
			var wrong *setting.Error
			require.ErrorAs(t, err, &wrong, name)
			require.Equal(t, name, wrong.Name)
		}
	}
}

func TestWhatTheModelCannotServeIsNamed(t *testing.T) {
	m := testModel(t)
	_, err := With(m, setting.Values{"gammas": []float32{1}})
	require.EqualError(t, err, "setting gammas: found 1 value, expected 2 values, one for each "+
		"bank of the model")
	_, err = With(m, setting.Values{"speed": 1})
	require.ErrorContains(t, err, "setting speed: found an unknown setting, expected method, "+
		"chunk, p")
	_, err = With(m, setting.Values{"rate": 1})
	require.EqualError(t, err, "setting rate: found a value of type int, expected one of type "+
		"float32")
}

func TestStaticIsTheNetworkAlone(t *testing.T) {
	m := testModel(t)
	for _, c := range []struct {
		asked setting.Values
		want  bool
	}{
		{nil, true},
		{setting.Values{"method": SparseMeta}, true},
		{setting.Values{"method": Static}, false},
		{setting.Values{"method": Static, "companion": true}, true},
	} {
		set, err := With(m, c.asked)
		require.NoError(t, err)
		require.Equal(t, c.want, set.Companion, c.asked)
	}
}

func TestSettingsAreWhatIsAskedFor(t *testing.T) {
	m := testModel(t)
	require.Empty(t, Asked(m, Defaults(m)))
	rapid.Check(t, func(rt *rapid.T) {
		set := DefaultsFor(m, rapid.SampledFrom(Methods()).Draw(rt, "method"))
		set.Chunk = rapid.IntRange(1, 9).Draw(rt, "chunk")
		set.Baseline = rapid.Bool().Draw(rt, "baseline")
		set.Companion = rapid.Bool().Draw(rt, "companion")
		set.Dynamic().Rate = rapid.SampledFrom([]float32{0, 1e-3, set.Dynamic().Rate}).Draw(rt,
			"rate")
		back, err := With(m, Asked(m, set))
		require.NoError(rt, err)
		require.Equal(rt, set, back)

		recorded := Recorded(m, set)
		require.Equal(rt, set.Companion, recorded["companion"], "whose default is the program's")
		back, err = With(m, recorded)
		require.NoError(rt, err)
		require.Equal(rt, set, back)
	})
}
