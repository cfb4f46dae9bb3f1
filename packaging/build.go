package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

type target struct{ os, arch string }

func parseTarget(name string) (target, error) {
	system, arch, ok := strings.Cut(name, "/")
	if !ok {
		return target{}, fmt.Errorf("target %q, expected a system and a processor, such as "+
			"linux/amd64",
			name)
	}
	return target{system, arch}, nil
}

func (t target) program() string {
	if t.os == "windows" {
		return "lmserve.exe"
	}
	return "lmserve"
}

type builder struct {
	source string
	work   string
	rev    revision
}

// build builds the binary of a target, and returns its path. It does not build an existing binary
// again. The caller's environment variables do not change the result.
func (b *builder) build(ctx context.Context, t target) (string, error) {
	out := filepath.Join(b.work, t.os+"-"+t.arch, t.program())
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	_, err := b.goTool(ctx, t, "build", "-trimpath", "-buildvcs=false", "-tags=s3",
		"-ldflags=-s -w -X main.version="+b.rev.version, "-o", out, "./cmd/lmserve")
	return out, err
}

func (b *builder) goTool(ctx context.Context, t target, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=",
		"GOFIPS140=off", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
	return output(cmd)
}

// output runs a command and returns its output. The error includes the command's standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, &said)
	}
	return out, nil
}

// documents returns the files that every archive has besides the binary: the repository's
// documents, and the manual pages and completions, which the program generates.
func (b *builder) documents(ctx context.Context) (tree, error) {
	program, err := b.build(ctx, target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	docs := tree{}
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", modelNotice,
	} {
		if err := docs.read(name, filepath.Join(b.source, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	}
	man := filepath.Join(b.work, "man")
	if _, err := output(exec.CommandContext(ctx, program,
		"man", "--date", b.rev.time.Format("2006-01-02"), man)); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		if err := docs.read(manFolder+filepath.Base(page), page); err != nil {
			return nil, err
		}
	}
	for shell, name := range completions {
		script, err := output(exec.CommandContext(ctx, program, "completion", shell))
		if err != nil {
			return nil, err
		}
		docs[completionFolder+name] = script
	}
	return docs, nil
}

const (
	manFolder        = "man/"
	completionFolder = "completions/"
)

var completions = map[string]string{
	"bash": "lmserve.bash", "zsh": "_lmserve", "fish": "lmserve.fish", "powershell": "lmserve.ps1",
}
