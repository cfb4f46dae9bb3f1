package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

func TestTwoReleasesOfOneCommitAreTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice")
	}
	made := [2]string{}
	from := ".." // The second clone is made from the first, so both have the same commits.
	for i := range made {
		dir := t.TempDir()
		clone := filepath.Join(dir, strings.Repeat("deeper/", i), "lmserve")
		out, err := exec.Command("git", "clone", "--quiet", from, clone).CombinedOutput()
		require.NoError(t, err, "%s", out)
		from = clone
		if i == 1 {
			t.Setenv("GOCACHE", filepath.Join(dir, "cache"))
		}
		made[i] = filepath.Join(dir, "dist")
		require.NoError(t, release(t.Context(), clone, made[i], []string{"linux/amd64"}))
	}
	var sums [2][]byte
	for i, dir := range made {
		var err error
		sums[i], err = os.ReadFile(filepath.Join(dir, checksumFile))
		require.NoError(t, err)
	}
	require.Equal(t, string(sums[0]), string(sums[1]))
	require.Equal(t, 5, strings.Count(string(sums[0]), "\n"), string(sums[0]))

	only := func(pattern string) string {
		files, err := filepath.Glob(filepath.Join(made[0], pattern))
		require.NoError(t, err)
		require.Len(t, files, 1)
		return files[0]
	}
	t.Run("archive", func(t *testing.T) { checkArchive(t, only("*.tar.gz")) })
	t.Run("components", func(t *testing.T) { checkSBOM(t, only("*.cdx.json")) })
	t.Run("image", func(t *testing.T) { checkImage(t, only("*.image.tar")) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, only("*.deb")) })
}

func checkArchive(t *testing.T, path string) {
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	require.NoError(t, err)
	files := untar(t, plain)
	folder := strings.TrimSuffix(filepath.Base(path), ".tar.gz") + "/"
	for _, name := range []string{
		"lmserve", "LICENSE", "CHANGELOG.md", "man/lmserve-serve.1", "completions/lmserve.bash",
		"completions/_lmserve", "completions/lmserve.fish", "licenses/std/LICENSE",
		"licenses/github.com/go-chi/chi/v5/LICENSE", "licenses/preact/LICENSE",
		"licenses/uplot/LICENSE",
		"weights/README.md", wordsFile,
	} {
		require.NotEmpty(t, files[folder+name], name)
	}
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		return
	}
	program := filepath.Join(t.TempDir(), "lmserve")
	require.NoError(t, os.WriteFile(program, files[folder+"lmserve"], 0o755))
	said, err := exec.Command(program, "version").Output()
	require.NoError(t, err)
	require.Contains(t, string(said), strings.Split(filepath.Base(path), "_")[1])
}

func untar(t *testing.T, r io.Reader) tree {
	files := tree{}
	for list := tar.NewReader(r); ; {
		header, err := list.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		var content bytes.Buffer
		_, err = io.Copy(&content, list)
		require.NoError(t, err)
		files[header.Name] = content.Bytes()
	}
}

func checkSBOM(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom))
	names := map[string]bool{}
	for _, c := range *bom.Components {
		names[c.Name] = true
		require.NotEmpty(t, c.Version, c.Name)
		if c.Type == cdx.ComponentTypeLibrary {
			require.NotNil(t, c.Licenses, c.Name)
			require.NotEmpty(t, *c.Licenses, c.Name)
		}
	}
	for _, name := range []string{
		"std", "github.com/go-chi/chi/v5", "preact", "uplot",
		"default.safetensors.zst",
	} {
		require.True(t, names[name], name)
	}
}

func checkImage(t *testing.T, path string) {
	image, err := tarball.ImageFromPath(path, nil)
	require.NoError(t, err)
	raw, err := image.RawConfigFile()
	require.NoError(t, err)
	var config v1.ConfigFile
	require.NoError(t, json.Unmarshal(raw, &config))
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/lmserve"}, config.Config.Entrypoint)
	require.Equal(t, []string{"CMD", "/lmserve", "health"}, config.Config.Healthcheck.Test)
	require.Contains(t, config.Config.Volumes, imageData)
	content := mutate.Extract(image)
	defer content.Close()
	files := untar(t, content)
	require.NotEmpty(t, files["lmserve"])
	require.NotEmpty(t, files["licenses/std/LICENSE"])
	require.NotContains(t, files, "bin/sh")
}

// systemd opens the output of a service before it makes the folder LogsDirectory=.
func TestPackagesMakeFolderOfWatchersOutput(t *testing.T) {
	unit, err := os.ReadFile("linux/lmserve-watch.service")
	require.NoError(t, err)
	output := regexp.MustCompile(`(?m)^StandardOutput=append:(/.+)$`).FindSubmatch(unit)
	require.NotNil(t, output)
	script, err := os.ReadFile("linux/postinstall.sh")
	require.NoError(t, err)
	require.Contains(t, string(script),
		"\ninstall -d -o lmserve -g lmserve -m 0750 "+filepath.Dir(string(output[1]))+"\n")
	require.Contains(t, string(unit), "\nUser=lmserve\nGroup=lmserve\n")
	require.Contains(t, string(unit), "\nLogsDirectoryMode=0750\n")
}

func checkDeb(t *testing.T, path string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg-deb")
	}
	list := func(flag string) string {
		out, err := exec.CommandContext(t.Context(), "dpkg-deb", flag, path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	files := list("--contents")
	for _, name := range []string{
		"/usr/bin/lmserve", "/usr/lib/systemd/system/lmserve.service", "/etc/lmserve/config.yaml",
		"/usr/lib/systemd/system/lmserve-watch.service",
		"/usr/share/man/man1/lmserve-serve.1.gz", "/usr/share/bash-completion/completions/lmserve",
		"/usr/share/doc/lmserve/copyright", "/usr/share/doc/lmserve/changelog.Debian.gz",
		"/usr/share/lmserve/" + wordsFile,
	} {
		require.Contains(t, files, "."+name)
	}
	require.Contains(t, list("--info"), "Package: lmserve")
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--control", path,
		dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	kept, err := os.ReadFile(filepath.Join(dir, "conffiles"))
	require.NoError(t, err)
	require.Equal(t, "/etc/lmserve/config.yaml", strings.TrimSpace(string(kept)))
	if _, err := exec.LookPath("lintian"); err != nil {
		return
	}
	out, err = exec.CommandContext(t.Context(),
		"lintian", "--allow-root", "--fail-on", "error,warning", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
