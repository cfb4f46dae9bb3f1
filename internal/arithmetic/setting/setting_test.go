package setting

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

type dials struct {
	mode   string
	loud   bool
	size   int
	share  float32
	chance float64
	decays []float32
}

var table = Table[dials]{
	{Name: "mode", Field: func(d *dials) any { return &d.mode }, Words: []string{"slow", "fast"},
		Default: "slow", Help: "how it goes"},
	{Name: "loud", Field: func(d *dials) any { return &d.loud }, Default: "false",
		Help: "whether it is heard", NoFlag: true},
	{Name: "size", Field: func(d *dials) any { return &d.size }, Min: 1, Max: 1e6,
		Limit: "size_max", Unit: "tokens", Default: "9", Help: "how much it holds"},
	{Name: "share", Field: func(d *dials) any { return &d.share }, Min: 0, Max: 1, Below: true,
		Methods: []string{"fast"}, Default: "0", Help: "the share of `loud`"},
	{Name: "chance", Field: func(d *dials) any { return &d.chance }, Min: 0, Max: 1, Above: true,
		Default: "1", Help: "the chance", Note: "It is even."},
	{Name: "decays", Field: func(d *dials) any { return &d.decays }, Min: -1, Max: .5, MaxItems: 2,
		Limit: "decays_max", Default: "none", Help: "the decays"},
}

func TestValuesAreSetAndReported(t *testing.T) {
	values := Values{"mode": "fast", "loud": true, "size": 7, "share": float32(.5), "chance": .25,
		"decays": []float32{0, .5}}
	var d dials
	require.NoError(t, table.Set(&d, values))
	require.Equal(t, dials{"fast", true, 7, .5, .25, []float32{0, .5}}, d)
	require.Equal(t, values, table.Values(&d))

	values["decays"].([]float32)[0] = 9
	table.Values(&d)["decays"].([]float32)[1] = 9
	values.Clone()["decays"].([]float32)[1] = 9
	require.Equal(t, []float32{0, .5}, d.decays, "nothing is shared")
	require.Equal(t, []float32{9, .5}, values["decays"])

	require.NoError(t, table.Set(&d, Values{"size": 8, "decays": []float32{}}))
	require.Equal(t, dials{"fast", true, 8, .5, .25, []float32{0, .5}}, d, "what is left out stays")
}

func TestValuesAreReadFromJSON(t *testing.T) {
	values := Values{"mode": "fast", "loud": true, "size": 7, "share": float32(.1), "chance": .1,
		"decays": []float32{0, .1}}
	written, err := json.Marshal(values)
	require.NoError(t, err)
	read := func(text string) (Values, error) {
		var raw map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &raw))
		return table.Read(raw)
	}
	back, err := read(string(written))
	require.NoError(t, err)
	require.Equal(t, values, back)

	_, err = read(`{"mood": "fast"}`)
	require.EqualError(t, err, "setting mood: found an unknown setting, expected mode, loud, "+
		"size, share, chance, decays")
	_, err = read(`{"size": 1.5}`)
	require.EqualError(t, err, "setting size: found 1.5, expected 1 to 1000000")
}

func TestWhatCannotBeSetIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"mode", "", `setting mode: found "", expected slow, fast`},
		{"mode", 1, "setting mode: found a value of type int, expected one of type string"},
		{"mood", "fast", "setting mood: found an unknown setting, expected mode, loud, size, " +
			"share, chance, decays"},
		{"loud", nil, "setting loud: found a value of type <nil>, expected one of type bool"},
		{"size", 0, "setting size: found 0, expected 1 to 1000000"},
		{"size", 1000001, "setting size: found 1000001, expected 1 to 1000000"},
		{"share", float32(1), "setting share: found 1, expected 0 to less than 1"},
		{"share", float32(math.NaN()), "setting share: found NaN, expected 0 to less than 1"},
		{"share", .5, "setting share: found a value of type float64, expected one of type float32"},
		{"chance", 0., "setting chance: found 0, expected above 0 to 1"},
		{"chance", math.Inf(1), "setting chance: found +Inf, expected above 0 to 1"},
		{"decays", []float32{0, 0, 0}, "setting decays: found 3 values, expected 1 to 2 values"},
		{"decays", []float32{0, .75}, "setting decays[1]: found 0.75, expected -1 to 0.5"},
	} {
		var d dials
		require.EqualError(t, table.Set(&d, Values{c.name: c.value}), c.want)
	}
	require.Panics(t, func() {
		Row[dials]{Field: func(*dials) any { return new(int8) }}.Check(
			new(dials))
	})
}

func TestNumbers(t *testing.T) {
	d := dials{size: 3, share: .5, chance: .25}
	for i, want := range map[int]float64{2: 3, 3: .5, 4: .25} {
		require.Equal(t, want, table[i].Number(&d))
		table[i].SetNumber(&d, 2.5)
	}
	require.Equal(t, dials{size: 2, share: 2.5, chance: 2.5}, d)
	require.True(t, table[2].Whole())
	require.False(t, table[3].Whole())
	require.Panics(t, func() { table[0].Number(&d) })
	require.Panics(t, func() { table[0].SetNumber(&d, 1) })
	require.Len(t, table.Of("slow"), 5)
	require.Len(t, table.Of("fast"), 6)
}

func TestFlagsReadEveryType(t *testing.T) {
	asked := Values{}
	for name, c := range map[string]struct {
		kind, text, wrong, want string
	}{
		"mode":   {"string", "fast", "", ""},
		"loud":   {"bool", "true", "perhaps", `found "perhaps", expected true or false`},
		"size":   {"int", "7", "7.5", `found "7.5", expected 1 to 1000000`},
		"share":  {"float", "0.1", "1e99", `found "1e99", expected 0 to less than 1`},
		"chance": {"float", "0.1", "x", `found "x", expected above 0 to 1`},
		"decays": {"floats", "0.1,-1", "0,,1", `found "0,,1", expected -1 to 0.5`},
	} {
		for _, r := range table {
			if r.Name != name {
				continue
			}
			f := r.Flag(asked)
			require.Equal(t, "", f.String())
			require.Equal(t, c.kind, f.Type())
			if c.wrong != "" {
				require.EqualError(t, f.Set(c.wrong), c.want)
				require.NotContains(t, asked, name)
			}
			require.NoError(t, f.Set(c.text))
			require.NotEmpty(t, f.String())
		}
	}
	require.Equal(t, Values{"mode": "fast", "loud": true, "size": 7, "share": float32(.1),
		"chance": .1, "decays": []float32{.1, -1}}, asked)
	require.Equal(t, "", (*Flag[dials])(nil).String())
	require.Equal(t, "cache-size", FlagName("cache_size"))
	require.Equal(t, "fast: the share of loud (0 to less than 1; default: 0)", table[3].FlagUsage())
	require.Equal(t, "how much it holds (1 to 1000000 tokens; default: 9)", table[2].FlagUsage())
	require.Equal(t, "whether it is heard (default: false)", table[1].FlagUsage())
}

func TestContractMatchesRows(t *testing.T) {
	require.Equal(t, `mode:
  type: string
  enum: [slow, fast]
  description: >-
    How it goes.
loud:
  type: boolean
  default: false
  description: >-
    Whether it is heard.
size:
  type: integer
  minimum: 1
  maximum: 1000000
  default: 9
  description: >-
    How much it holds.
share:
  type: number
  format: float
  minimum: 0
  maximum: 1
  exclusiveMaximum: true
  default: 0
  description: >-
    For `+"`fast`: the share of `loud`"+`.
chance:
  type: number
  format: double
  minimum: 0
  exclusiveMinimum: true
  maximum: 1
  default: 1
  description: >-
    The chance. It is even.
decays:
  type: array
  minItems: 1
  maxItems: 2
  items: { type: number, format: float, minimum: -1, maximum: 0.5 }
  description: >-
    The decays.
`, table.RequestSchema())
	require.Equal(t, `required: [mode, loud, size, share, chance, decays]
properties:
  mode: { type: string }
  loud: { type: boolean }
  size: { type: integer }
  share: { type: number, format: float }
  chance: { type: number, format: double }
  decays: { type: array, items: { type: number, format: float } }
`, table.AnswerSchema())
	require.Equal(t, "size_max: 1000000\ndecays_max: 2\n", table.Limits())
	require.Equal(t, "mode: { x-order: 1 }\n", table[:1].Order())
	named := Table[dials]{{Name: "mode", Field: table[0].Field, Schema: "Mode"}}
	require.Equal(t, "mode: { $ref: \"#/components/schemas/Mode\" }\n", named.RequestSchema())
	require.Equal(t, "required: [mode]\nproperties:\n  mode: { $ref: "+
		"\"#/components/schemas/Mode\" }\n", named.AnswerSchema())

	open := Table[dials]{table[1]}
	open[0].Default = "the model's"
	require.NotContains(t, open.RequestSchema(), "default:", "words are no default of a schema")

	twice := append(Table[dials]{}, table[2], table[2])
	require.Equal(t, "size_max: 1000000\n", twice.Limits())
	twice[1].Max = 7
	require.Panics(t, func() { twice.Limits() })
	require.Equal(t, []string{"aa bb", "cccccccc", "d"}, wrapped("aa bb cccccccc d", 5))
}

func TestPageHasObjectForEachRow(t *testing.T) {
	require.Equal(t, `{
  name: "mode",
  kind: "word",
  help: "how it goes",
  words: ["slow", "fast"],
},
{
  name: "loud",
  kind: "switch",
  help: "whether it is heard",
},
{
  name: "size",
  kind: "whole",
  help: "how much it holds",
  min: 1,
  max: 1000000,
},
{
  name: "share",
  kind: "number",
  help: "the share of loud",
  methods: ["fast"],
  min: 0,
  max: 1,
},
{
  name: "chance",
  kind: "number",
  help: "the chance",
  min: 0,
  max: 1,
},
{
  name: "decays",
  kind: "numbers",
  help: "the decays",
  min: -1,
  max: 0.5,
},
`, table.TypeScript())
}

func TestDocumentationHasLineForEachRow(t *testing.T) {
	require.Equal(t, `| name | flag | range | default | meaning |
|---|---|---|---|---|
| `+"`loud` | none | true or false | false | Whether it is heard. |\n| `size` | `--size`"+
		` | 1 to 1000000 tokens | 9 | How much it holds. |
`, table[1:3].Markdown())
	require.Contains(t, table.Markdown(), "| 1 to 2 numbers, each -1 to 0.5 | none |")
}
