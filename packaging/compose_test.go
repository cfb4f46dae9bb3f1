package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

type composed struct {
	Services map[string]service        `json:"services"`
	Volumes  map[string]map[string]any `json:"volumes"`
	Shared   any                       `json:"x-lmserve"`
	Server   any                       `json:"x-server"`
}

type service struct {
	Image       string            `json:"image"`
	Entrypoint  []string          `json:"entrypoint"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	ReadOnly    bool              `json:"read_only"`
	CapDrop     []string          `json:"cap_drop"`
	Ports       []string          `json:"ports"`
	Volumes     []string          `json:"volumes"`
	Restart     string            `json:"restart"`
	Healthcheck struct {
		Test        []string `json:"test"`
		Interval    string   `json:"interval"`
		StartPeriod string   `json:"start_period"`
		Retries     int      `json:"retries"`
	} `json:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
	StopGracePeriod string `json:"stop_grace_period"`
}

func compose(t *testing.T) (text string, file composed) {
	read, err := os.ReadFile("../deploy/compose/compose.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(read, &file))
	return string(read), file
}

func program(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "lmserve")
	out, err := exec.Command("go", "build", "-C", "..", "-o", path,
		"./cmd/lmserve").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// checkServer checks that lmserve accepts a server's arguments and environment variables. It runs
// lmserve, which must fail only because its database is missing. The grace period must suffice to
// finish requests and to save states.
func checkServer(
	t *testing.T, program string, grace time.Duration, args []string, variables ...string,
) {
	t.Helper()
	run := func(args ...string) ([]byte, error) {
		c := exec.Command(program, args...)
		c.Env = append([]string{"HOME=" + t.TempDir(), "LMSERVE_SERVE_LISTEN=127.0.0.1:0"},
			variables...)
		c.Env = append(c.Env, "LMSERVE_STORE=postgres://lmserve@127.0.0.1:1/lmserve")
		if len(variables) == 0 {
			c.Env = append(c.Env, "LMSERVE_OBJECTS=s3://states?region=eu-central-1")
		}
		return c.CombinedOutput()
	}
	address := regexp.MustCompile(`\$\(POD_[A-Z]+\)`)
	for i := range args {
		args[i] = address.ReplaceAllString(args[i], "10.0.0.1")
	}
	out, err := run(args...)
	require.Error(t, err)
	require.Contains(t, string(out), "127.0.0.1:1", "the server looks for its database")

	require.NotContains(t, strings.Join(args, " "), "--drain-", "the drain is the program's own")
	out, err = run("config", "serve", "--json")
	require.NoError(t, err, "%s", out)
	var flags []struct{ Flag, Value string }
	require.NoError(t, json.Unmarshal(out, &flags), "%s", out)
	for _, f := range flags {
		if f.Flag == "drain-timeout" {
			drain, err := time.ParseDuration(f.Value)
			require.NoError(t, err)
			require.GreaterOrEqual(t, grace, drain+drain/2)
			return
		}
	}
	t.Fatal("there is no --drain-timeout")
}

func TestComposeIsOfThreeServers(t *testing.T) {
	_, file := compose(t)
	lmserve := program(t)
	image := (&builder{}).imageConfig(target{}).Config
	ports := map[string]bool{}
	servers := 0
	for name, s := range file.Services {
		if len(s.Command) == 0 || s.Command[0] != "serve" {
			continue
		}
		servers++
		require.Contains(t, s.Command, "--node="+name)
		require.Contains(t, s.Command, "--advertise=http://"+name+":"+imagePort)
		require.Len(t, s.Ports, 1)
		require.Regexp(t, `^127\.0\.0\.1:[0-9]+:`+imagePort+"$", s.Ports[0])
		ports[s.Ports[0]] = true
		require.Equal(t, []string{name + ":" + imageData}, s.Volumes)
		require.True(t, s.ReadOnly)
		require.Equal(t, image.Healthcheck.Test, s.Healthcheck.Test)
		require.Equal(t, "service_completed_successfully", s.DependsOn["migrate"].Condition)
		require.Equal(t, "service_completed_successfully", s.DependsOn["bucket"].Condition)
		grace, err := time.ParseDuration(s.StopGracePeriod)
		require.NoError(t, err)
		var variables []string
		for name, value := range s.Environment {
			variables = append(variables, name+"="+value)
		}
		checkServer(t, lmserve, grace, s.Command, variables...)
	}
	require.Equal(t, 3, servers)
	require.Len(t, ports, servers)
}

func TestComposeStartsWhatItNeeds(t *testing.T) {
	_, file := compose(t)
	for name, s := range file.Services {
		require.Regexp(t, `^\$\{LMSERVE_IMAGE:\?.+\}$|^[a-z/]+:.*[0-9]`, s.Image, name)
		for _, v := range s.Volumes {
			require.Contains(t, file.Volumes, strings.Split(v, ":")[0])
		}
		for needed, how := range s.DependsOn {
			require.Contains(t, file.Services, needed)
			if how.Condition == "service_healthy" {
				require.NotEmpty(t, file.Services[needed].Healthcheck.Test)
			} else {
				require.Empty(t, file.Services[needed].Restart, "%s ends", needed)
			}
		}
	}
	migrate, database := file.Services["migrate"], file.Services["database"]
	require.Equal(t, []string{"migrate"}, migrate.Command)
	require.Equal(t, file.Services["one"].Environment, migrate.Environment)
	require.Equal(t, "service_healthy", migrate.DependsOn["database"].Condition)
	require.NotEmpty(t, migrate.Environment["LMSERVE_OBJECTS"], "migrate marks the bucket")
	require.Equal(t, "service_completed_successfully", migrate.DependsOn["bucket"].Condition)
	require.Contains(t, database.Healthcheck.Test, "--host=127.0.0.1")
	require.Equal(t, "service_healthy", file.Services["bucket"].DependsOn["objects"].Condition)
}

func TestComposeHasItsSecretsFromOutside(t *testing.T) {
	text, file := compose(t)
	for _, s := range file.Services {
		for name, value := range s.Environment {
			if strings.Contains(name, "PASSWORD") || strings.Contains(name, "SECRET") {
				require.Regexp(t, `^\$\{[A-Z_]+:\?.+\}$`, value, name)
			}
		}
	}
	example, err := os.ReadFile("../deploy/compose/example.env")
	require.NoError(t, err)
	asked := regexp.MustCompile(`[^$]\$\{([A-Z_]+)`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, asked)
	for _, a := range asked {
		require.Regexp(t, "(?m)^"+a[1]+"=.", string(example))
	}
}
