package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	modulePath = "github.com/lmserve/lmserve"
	// moduleBytesMax is slightly above the module's size. On 2026-11-26 the module had 14.2 MB, of
	// which the embedded models took 9.5 MB.
	moduleBytesMax = 15 << 20
)

// The Go module of this repository must contain all files that 'go install' needs. It must be small
// enough for module proxies.
func TestGoInstallMakesTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	version := module.Version{Path: modulePath, Version: "v0.1.0-test"}
	proxy := filepath.Join(t.TempDir(), filepath.FromSlash(modulePath), "@v")
	require.NoError(t, os.MkdirAll(proxy, 0o755))
	requirements, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	parsed, err := modfile.Parse("go.mod", requirements, nil)
	require.NoError(t, err)
	require.Empty(t, parsed.Replace, "'go install' refuses modules that replace others")
	require.Empty(t, parsed.Exclude)

	var packed bytes.Buffer
	clone := filepath.Join(t.TempDir(), "lmserve")
	said, err := exec.Command("git", "clone", "--quiet", "..", clone).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoError(t, zip.CreateFromVCS(&packed, version, clone, "HEAD", ""))
	t.Logf("the module has %d bytes", packed.Len())
	require.Less(t, packed.Len(), moduleBytesMax)
	for name, content := range map[string][]byte{
		version.Version + ".zip": packed.Bytes(), version.Version + ".mod": requirements,
		version.Version + ".info": []byte(`{"Version":"` + version.Version + `"}`),
		"list":                    []byte(version.Version + "\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(proxy, name), content, 0o644))
	}
	root := strings.TrimSuffix(proxy, filepath.FromSlash(modulePath+"/@v"))
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	require.NoError(t, err)
	bin := t.TempDir()
	install := exec.Command("go", "install", modulePath+"/cmd/lmserve@"+version.Version)
	install.Dir = bin
	install.Env = append(os.Environ(), "GOPROXY=file://"+root+","+strings.TrimSpace(string(out)),
		"GONOSUMDB="+modulePath, "GOFLAGS=", "GOBIN="+bin, "CGO_ENABLED=0")
	said, err = install.CombinedOutput()
	require.NoError(t, err, "%s", said)
	said, err = exec.Command(filepath.Join(bin, "lmserve"), "version").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), version.Version)
	require.Contains(t, string(said), "lmserve-default")
}
