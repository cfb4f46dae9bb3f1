package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	variablePrefix = "LMSERVE_"
	// configName is the flag --config, which names the configuration file. In some commands, such
	// as train, --config names a model configuration instead; these commands find the configuration
	// file only through the environment variable.
	configName     = "config"
	configVariable = variablePrefix + "CONFIG"
	noConfig       = "none" // the value of --config for no configuration file
)

const configurationHelp = `The value of a flag comes from the first of these that has it: the
command line; the environment variable LMSERVE_COMMAND_FLAG, such as
LMSERVE_SERVE_LISTEN; the variable LMSERVE_FLAG, such as LMSERVE_DATA_DIR; the
configuration file (YAML):

    data-dir: /var/lib/lmserve    # for every command that has the flag
    serve:                        # for one command
      listen: 127.0.0.1:9090
      allow-host: [lm.example.org]

--config or LMSERVE_CONFIG names the configuration file; none reads no file. The default
is lmserve/config.yaml in the user's configuration folder, if the file exists. 'lmserve
config COMMAND' shows the current values.`

type configuration struct {
	file   string
	values map[string]any
}

func readConfiguration(ctx context.Context, root *cobra.Command) (*configuration, error) {
	conf := &configuration{}
	given := root.PersistentFlags().Lookup(configName).Value.String()
	named := cmp.Or(given, os.Getenv(configVariable))
	path := cmp.Or(named, defaultConfigFile())
	if path == "" || path == noConfig {
		return conf, nil
	}
	text, err := readBounded(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && named == "":
		return conf, nil
	case err != nil:
		return nil, usagef("the configuration file: %w", err)
	}
	conf.file = path
	if err := yaml.Unmarshal(text, &conf.values); err != nil {
		return nil, usagef("%s: expected YAML with flags and their values: %w", path, err)
	}
	return conf, conf.check(root, nil, conf.values)
}

// defaultConfigFile returns the default configuration file, or "" if the system defines no folder
// for it.
func defaultConfigFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "lmserve", "config.yaml")
}

// check returns an error for the first unknown key of a section. Known keys are the command's
// subcommands, its flags, and its subcommands' flags.
func (conf *configuration) check(c *cobra.Command, above []string, section map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(section)) {
		path := append(slices.Clone(above), key)
		below := subcommandNamed(c, key)
		inner, isSection := section[key].(map[string]any)
		_, hasOtherKeys := section[key].(map[any]any) // a section with a key that is not a text
		switch {
		case below != nil && isSection:
			if err := conf.check(below, path, inner); err != nil {
				return err
			}
		case below != nil && section[key] == nil:
		case below != nil && !takesFlag(c, key):
			return conf.wrong(path, fmt.Sprint(section[key]), "flags of "+below.CommandPath())
		case !takesFlag(c, key), key == configName && len(above) == 0:
			return conf.unknown(c, path)
		case isSection, hasOtherKeys:
			return conf.wrong(path, "a section", "the value of a flag")
		}
	}
	return nil
}

func takesFlag(c *cobra.Command, name string) (takes bool) {
	everyCommand(c, func(c *cobra.Command) {
		f := flagsOf(c).Lookup(name)
		takes = takes || f != nil && configurable(c, f)
	})
	return takes
}

func flagsOf(c *cobra.Command) *pflag.FlagSet {
	c.InheritedFlags() // called for its side effect: it adds the inherited flags to c.Flags
	return c.Flags()
}

func configurable(c *cobra.Command, f *pflag.Flag) bool {
	return f.Name != "help" && f.Name != "version" &&
		f != c.Root().PersistentFlags().Lookup(configName)
}

func (conf *configuration) unknown(c *cobra.Command, path []string) error {
	want := "a command, or a flag of a command"
	if !c.HasSubCommands() {
		var names []string
		flagsOf(c).VisitAll(func(f *pflag.Flag) {
			if configurable(c, f) {
				names = append(names, f.Name)
			}
		})
		want = "a flag of " + c.CommandPath() + " (" + strings.Join(names, ", ") + ")"
	}
	return conf.wrong(path, "an unknown key", want)
}

func (conf *configuration) wrong(path []string, found, want string) error {
	key := strings.Join(path, ".")
	return usagef("%s: %s: found %s, expected %s", conf.file, key, found, want)
}

// origin describes the source of a flag's value: an environment variable, or a key in the
// configuration file.
type origin string

const fromDefault origin = "the default"

// origins maps each flag that was not set on the command line to the source of its value.
type origins map[string]origin

type originsKey struct{}

func configure(c *cobra.Command, _ []string) error {
	// A group of commands and cobra's hidden command for shell completion need no configuration.
	if c.HasSubCommands() || c.Hidden {
		return nil
	}
	conf, err := readConfiguration(c.Context(), c.Root())
	if err != nil {
		return err
	}
	set, err := conf.apply(c)
	c.SetContext(context.WithValue(c.Context(), originsKey{}, set))
	return err
}

// onCommandLine reports whether the value of a flag is from the command line, not from the
// configuration or the default.
func onCommandLine(c *cobra.Command, flag string) bool {
	set, _ := c.Context().Value(originsKey{}).(origins)
	_, configured := set[flag]
	return c.Flags().Changed(flag) && !configured
}

// chosen returns which of two flags applies, if only one of them can: first, unless the command
// line has only second. If the command line has both, chosen returns an error.
func chosen(c *cobra.Command, first, second string) (string, error) {
	switch a, b := onCommandLine(c, first), onCommandLine(c, second); {
	case a && b:
		return "", usagef("--%s and --%s are both given, expected one of them", first, second)
	case b:
		return second, nil
	}
	return first, nil
}

// unconfigured replaces configure in commands about the program itself, which must work despite a
// faulty configuration.
func unconfigured(*cobra.Command, []string) error { return nil }

func (conf *configuration) apply(c *cobra.Command) (set origins, err error) {
	set = origins{}
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || !configurable(c, f) {
			return
		}
		value, from, found := fromEnvironment(c, f.Name)
		if !found {
			value, from, found = conf.find(c, f.Name)
		}
		if !found {
			return
		}
		if err = assign(c.Flags(), f, value, from); err == nil {
			set[f.Name] = from
		}
	})
	return set, err
}

// fromEnvironment looks up a flag's value in the environment. It ignores empty variables.
func fromEnvironment(c *cobra.Command, flag string) (value any, from origin, found bool) {
	variables := []string{variable(append(commandWords(c), flag)...)}
	if flag != configName { // LMSERVE_CONFIG is not read here: it names the configuration file
		variables = append(variables, variable(flag))
	}
	for _, name := range variables {
		if text := os.Getenv(name); text != "" {
			return text, origin(name), true
		}
	}
	return nil, "", false
}

// variable returns the name of an environment variable, such as LMSERVE_KEYS_ADD for the words keys
// and add.
func variable(words ...string) string {
	name := strings.ToUpper(strings.Join(words, "_"))
	return variablePrefix + strings.ReplaceAll(name, "-", "_")
}

// commandWords returns the words of a command without the program's name, such as "keys" and "add".
func commandWords(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

// find looks up a flag's value in the configuration file, in the command's section or an enclosing
// section. It also accepts the flag's old name.
func (conf *configuration) find(
	c *cobra.Command, flag string,
) (value any, from origin, found bool) {
	for words := commandWords(c); ; words = words[:len(words)-1] {
		section := conf.values
		for _, word := range words {
			section, _ = section[word].(map[string]any)
		}
		key, ok := keyOf(c, section, flag)
		// At the top level, the key config would name the configuration file itself.
		if ok && (flag != configName || len(words) > 0) {
			path := strings.Join(append(slices.Clone(words), key), ".")
			return section[key], origin(conf.file + ": " + path), true
		}
		if len(words) == 0 {
			return nil, "", false
		}
	}
}

func keyOf(c *cobra.Command, section map[string]any, flag string) (key string, ok bool) {
	for _, key := range append([]string{flag}, slices.Sorted(maps.Keys(section))...) {
		value, there := section[key]
		_, isSection := value.(map[string]any)
		f := c.Flags().Lookup(key)
		if there && !isSection && f != nil && f.Name == flag {
			return key, true
		}
	}
	return "", false
}

func assign(flags *pflag.FlagSet, f *pflag.Flag, value any, from origin) error {
	wrong := func(err error) error {
		_, want, said := strings.Cut(err.Error(), "expected ")
		if !said {
			want = valueOf[f.Value.Type()]
		}
		return usagef("%s: found %q, expected %s", from, valueText(value), want)
	}
	list, isList := value.([]any)
	slice, takesList := f.Value.(pflag.SliceValue)
	switch {
	case value == nil:
		return usagef("%s: found nothing, expected a value", from)
	case isList && takesList:
		if err := slice.Replace(valueTexts(list)); err != nil {
			return wrong(err)
		}
		f.Changed = true
		return nil
	}
	if err := flags.Set(f.Name, valueText(value)); err != nil {
		return wrong(err)
	}
	return nil
}

// valueOf describes the valid values of those flag types whose parse errors do not describe them.
var valueOf = map[string]string{
	"bool": "true or false", "int": "a whole number", "int64": "a whole number",
	"uint64": "a whole number, 0 or more", "float64": "a number",
	"duration": "a duration such as 500ms, 30s or 1h", "stringSlice": "a list of texts",
	"stringArray": "a text, or a list of texts", "float32Slice": "a list of numbers",
}

func valueText(value any) string {
	switch v := value.(type) {
	case []any:
		return strings.Join(valueTexts(v), ",")
	case time.Time: // YAML parses a date; the flag needs it as text
		if v.Equal(v.Truncate(24 * time.Hour)) {
			return v.Format(time.DateOnly)
		}
		return v.Format(time.RFC3339)
	}
	return fmt.Sprint(value)
}

func valueTexts(values []any) []string {
	texts := make([]string, len(values))
	for i, one := range values {
		texts[i] = valueText(one)
	}
	return texts
}

// explained adds the source of a flag's value to a usage error that names the flag. It adds nothing
// for a value from the command line.
func explained(c *cobra.Command, err error) error {
	var usage usageError
	if c.Context() == nil || !errors.As(err, &usage) {
		return err
	}
	set, _ := c.Context().Value(originsKey{}).(origins)
	for name, from := range set {
		for _, word := range strings.Fields(err.Error()) {
			if strings.Trim(word, ".,:;()'\"") == "--"+name {
				return fmt.Errorf("%w (the value of --%s is from %s)", err, name, from)
			}
		}
	}
	return err
}
