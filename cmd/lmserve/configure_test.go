package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func configFile(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "lmserve.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func inForce(t *testing.T, args ...string) map[string]configuredFlag {
	var all []configuredFlag
	out := must(t, "", append([]string{"config", "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	byName := map[string]configuredFlag{}
	for _, f := range all {
		byName[f.Flag] = f
	}
	return byName
}

// A flag's value comes from the command line, else the environment, else the file, else its
// default. A value for one command takes precedence over a value for all commands.
func TestFlagsComeBeforeVariablesBeforeTheFile(t *testing.T) {
	file := configFile(t, "threads: 3\nserve:\n  threads: 4\n  log: json\n  allow-host: [a, b]\n"+
		"  max-replay: 20s\n  scrub: false\nkeys:\n  add:\n    expires: 2030-01-31\n")
	serve := inForce(t, "serve", "--config", file)
	require.Equal(t, configuredFlag{"threads", "4", origin(file + ": serve.threads")},
		serve["threads"])
	require.Equal(t, "json", serve["log-format"].Value, "by its name of before, too")
	require.Equal(t, "[a,b]", serve["allow-host"].Value)
	require.Equal(t, "20s", serve["max-replay"].Value)
	require.Equal(t, "false", serve["scrub"].Value)
	require.Equal(t, configuredFlag{"listen", "127.0.0.1:8080", fromDefault}, serve["listen"])
	require.Equal(t, origin(file+": threads"), inForce(t, "score", "--config",
		file)["threads"].From)
	require.Equal(t, "2030-01-31", inForce(t, "keys", "add", "--config", file)["expires"].Value)

	t.Setenv(configVariable, file)
	t.Setenv("LMSERVE_THREADS", "5")
	t.Setenv("LMSERVE_LISTEN", "")
	require.Equal(t, configuredFlag{"threads", "5", "LMSERVE_THREADS"},
		inForce(t, "serve")["threads"])
	require.Equal(t, "127.0.0.1:8080", inForce(t, "serve")["listen"].Value,
		"an empty one says nothing")
	t.Setenv("LMSERVE_SERVE_THREADS", "6")
	require.Equal(t, "LMSERVE_SERVE_THREADS", string(inForce(t, "serve")["threads"].From))
	require.Equal(t, "LMSERVE_THREADS", string(inForce(t, "bench")["threads"].From))

	t.Setenv("LMSERVE_SERVE_THREADS", "0")
	_, stderr, code := lmserve("", "serve", "--data-dir", "none")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--threads is 0, expected 1 to 256 (the value of --threads is "+
		"from LMSERVE_SERVE_THREADS)")
	_, stderr, _ = lmserve("", "serve", "--data-dir", "none", "--threads", "-7")
	require.Contains(t, stderr, "--threads is -7, expected 1 to 256\n",
		"the command line comes first")
}

func TestEveryFlagCanBeConfigured(t *testing.T) {
	everyCommand(newRoot(), func(c *cobra.Command) {
		if c.HasSubCommands() || c.PersistentPreRunE != nil {
			return
		}
		flagsOf(c).VisitAll(func(f *pflag.Flag) {
			if !configurable(c, f) {
				return
			}
			name := variable(append(commandWords(c), f.Name)...)
			value := map[string]string{"bool": "true", "duration": "1s", "string": "x",
				"stringSlice": "x",
				"stringArray": "x", "float32Slice": "1", "floats": "1"}[f.Value.Type()]
			if value == "" {
				value = "1"
			}
			t.Setenv(name, value)
			about, err := findCommand(newRoot(), commandWords(c))
			require.NoError(t, err)
			conf := &configuration{}
			set, err := conf.apply(about)
			require.NoError(t, err)
			require.Equal(t, origins{f.Name: origin(name)}, set)
			os.Unsetenv(name)
		})
	})
}

func TestWrongConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"listn: x": "listn: found an unknown key, expected a command, " +
			"or a flag of a command",
		"serve: {listn: x}": "serve.listn: found an unknown key, expected a " +
			"flag of lmserve serve (admin, advertise, alert-threshold, alerts, allow-host, ",
		"watch2: {rate: 1}":           "watch2: found an unknown key",
		"sessions: {exprt: {out: x}}": "sessions.exprt: found an unknown key",
		"serve: 3":                    "serve: found 3, expected flags of lmserve serve",
		"serve: {threads: many}":      `serve.threads: found "many", expected a whole number`,
		"serve: {threads: 1.5}":       `serve.threads: found "1.5", expected a whole number`,
		"serve: {threads: }":          "serve.threads: found nothing, expected a value",
		"serve: {threads: [1, 2]}":    `serve.threads: found "1,2", expected a whole number`,
		"serve: {threads: {a: 1}}": "serve.threads: found a section, expected the " +
			"value of a flag",
		"serve: {listen: {1: 2}}": "serve.listen: found a section, expected the value of a flag",
		"serve: {1: 2}":           "serve: found map[1:2], expected flags of lmserve serve",
		"serve: {scrub: perhaps}": `serve.scrub: found "perhaps", expected true or false`,
		"serve: {max-replay: 3}":  `serve.max-replay: found "3", expected a duration`,
		"serve: {memory-budget: 1.5G}": `serve.memory-budget: found "1.5G", expected a number ` +
			`of bytes`,
		"serve: {threads: 0}": "--threads is 0, expected 1 to 256 (the value of --threads is " +
			"from FILE: serve.threads)",
		"threads: x":                         `threads: found "x", expected a whole number`,
		"serve:\n  threads: 1\n  threads: 2": "mapping key \"threads\" already defined",
		"- serve":                            "expected YAML with flags and their values",
		"serve: [":                           "expected YAML",
		"config: x":                          "config: found an unknown key",
	} {
		file := configFile(t, text)
		_, stderr, code := lmserve("", "serve", "--data-dir", "none", "--listen", "nowhere",
			"--config", file)
		require.Equal(t, exitUsage, code, text)
		require.Contains(t, stderr, file, text)
		require.Contains(t, stderr, strings.ReplaceAll(want, "FILE", file), text)
	}
	_, stderr, code := lmserve("", "serve", "--config", "no-such-file")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "no-such-file")
	t.Setenv("LMSERVE_MAX_REPLAY", "soon")
	_, stderr, _ = lmserve("", "serve", "--data-dir", "none")
	require.Contains(t, stderr, `LMSERVE_MAX_REPLAY: found "soon", expected a duration`)
}

func TestDefaultConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	require.Equal(t, fromDefault, inForce(t, "serve")["threads"].From)
	file := filepath.Join(dir, "lmserve", "config.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("threads: 7\nserve:\n"), 0o600))
	require.Equal(t, "7", inForce(t, "serve")["threads"].Value)
	require.NotEqual(t, "7", inForce(t, "serve", "--config", "none")["threads"].Value)
	require.Contains(t, must(t, "", "config", "serve"), "configuration file: "+file+"\n")
}

// In the commands train and bench, --config names a model configuration. These commands find the
// configuration file through the environment variable. The file may set --config in its sections
// for train and bench.
func TestConfigurationsOfModelsAndOfCommands(t *testing.T) {
	file := configFile(t, "bench: {config: tiny, seconds: 0.5}\ntrain: {config: small}\n")
	t.Setenv(configVariable, file)
	require.Equal(t, "tiny", inForce(t, "bench")["config"].Value)
	require.Equal(t, "0.5", inForce(t, "bench")["seconds"].Value)
	require.Equal(t, "small", inForce(t, "train")["config"].Value)
	_, ok := inForce(t, "serve")["config"]
	require.False(t, ok)
	_, stderr, code := lmserve("", "bench", "--config", "no-such-model")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--config no-such-model")
}

func TestKeyIsNotShown(t *testing.T) {
	t.Setenv("LMSERVE_KEY", "secret-text")
	out := must(t, "", "config", "complete")
	require.NotContains(t, out, "secret-text")
	require.Regexp(t, `key +\(a secret\) +LMSERVE_KEY`, out)

	t.Setenv("LMSERVE_STORE", "postgres://u:secret-text@db/x?password=secret-text")
	t.Setenv("LMSERVE_OBJECTS", "s3://states?key=secret-text")
	out = must(t, "", "config", "serve")
	require.NotContains(t, out, "secret-text")
	require.Regexp(t, `store +postgres://db/x +LMSERVE_STORE`, out)
	serve := inForce(t, "serve")
	require.Equal(t, "postgres://db/x", serve["store"].Value)
	require.Equal(t, "s3://states", serve["objects"].Value)
}

func FuzzConfiguration(f *testing.F) {
	for _, text := range []string{"", "serve: {threads: 1}", "a: &x [*x]", "? {a: b}\n: c",
		"serve: !!binary x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		t.Setenv(configVariable, configFile(t, text))
		about, err := findCommand(newRoot(), []string{"serve"})
		require.NoError(t, err)
		conf, err := readConfiguration(t.Context(), about.Root())
		if err != nil {
			return
		}
		_, _ = conf.apply(about)
	})
}

// A flag on the command line replaces a configured flag that excludes it. Two flags on the command
// line that exclude each other are an error.
func TestConfiguredFlagsYieldToCommandLine(t *testing.T) {
	dir := t.TempDir()
	url, stop := serving(t, "--model", smallModel(t), "--data-dir", filepath.Join(dir, "data"))
	defer stop()
	t.Setenv("LMSERVE_DATA_DIR", dir)
	must(t, "", "backup", "--server", url, filepath.Join(dir, "out.tar"))
	_, stderr, code := lmserve("", "backup", "--server", url, "--data-dir", dir,
		filepath.Join(dir, "two.tar"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--server and --data-dir are both given, expected one of them")

	t.Setenv(configVariable, configFile(t, "threads: 3\nmem-len: 9\nthreshold: 1/100\n"))
	text, log := beginning(t, 16000)
	must(t, text, "score", "--server", url)
	must(t, "", "complete", "--server", url, "--max-tokens", "1")
	must(t, "", "suggest", "--server", url)
	watch := func(flags ...string) string {
		return must(t, text, append([]string{"watch", "--lines", "--json", "-"},
			flags...)...)
	}
	require.Equal(t, 3, strings.Count(watch("--server", url, "--top", "3"), "\n"))
	_, stderr, code = lmserve("", "watch", log, "--threshold", "1/9", "--top", "3")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--threshold and --top are both given, expected one of them")

	t.Setenv("LMSERVE_SERVER", url)
	t.Setenv("LMSERVE_WATCH_TOP", "3")
	require.Equal(t, 3, strings.Count(watch(), "\n"), "--top limits the lines of --threshold")
	require.Greater(t, strings.Count(watch("--threshold", "1/2"), "\n"), 3)
	_, stderr, code = lmserve("", "backup", "--data-dir", filepath.Join(dir, "nothing"),
		filepath.Join(dir, "of-folder.tar"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "nothing")
}
