package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// composed is what the file for Compose says of a service.
type composed struct {
	Image           string            `json:"image"`
	Command         []string          `json:"command"`
	Environment     map[string]string `json:"environment"`
	Ports           []string          `json:"ports"`
	Volumes         []string          `json:"volumes"`
	StopGracePeriod string            `json:"stop_grace_period"`
}

// The servers of the file for Compose have flags that the program takes, ports on this machine alone,
// names of their own, and time to hand over what they have.
func TestComposeIsOfThreeServers(t *testing.T) {
	text, err := os.ReadFile("../deploy/compose/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]composed       `json:"services"`
		Volumes  map[string]map[string]any `json:"volumes"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	program := filepath.Join(t.TempDir(), "lmserve")
	out, err := exec.Command("go", "build", "-C", "..", "-o", program, "./cmd/lmserve").CombinedOutput()
	require.NoError(t, err, "%s", out)
	servers := 0
	for name, s := range file.Services {
		require.Regexp(t, `^\$\{LMSERVE_IMAGE:-lmserve/lmserve:latest\}$|^[a-z/]+:[A-Z0-9.a-z-]*[0-9][0-9A-Z.a-z-]*$`,
			s.Image, "%s is of a certain version", name)
		for _, v := range s.Volumes {
			require.Contains(t, file.Volumes, strings.Split(v, ":")[0])
		}
		if len(s.Command) == 0 || s.Command[0] != "serve" {
			continue
		}
		servers++
		require.Contains(t, s.Command, "--node="+name)
		require.Contains(t, s.Command, "--advertise=http://"+name+":"+imagePort)
		require.Regexp(t, "^127.0.0.1:[0-9]+:"+imagePort+"$", s.Ports[0])
		require.Equal(t, []string{name + ":" + imageData}, s.Volumes)
		grace, err := time.ParseDuration(s.StopGracePeriod)
		require.NoError(t, err)
		require.Greater(t, grace, 40*time.Second, "longer than a drain")
		started := exec.Command(program, s.Command...)
		started.Env = []string{
			"HOME=" + t.TempDir(), "LMSERVE_SERVE_LISTEN=127.0.0.1:0",
			"LMSERVE_STORE=" + strings.Replace(s.Environment["LMSERVE_STORE"], "@database/", "@127.0.0.1:1/", 1),
			"LMSERVE_OBJECTS=" + s.Environment["LMSERVE_OBJECTS"],
		}
		out, err := started.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "127.0.0.1:1", "its flags are taken, and there is no database")
	}
	require.Equal(t, 3, servers)
}
