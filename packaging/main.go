// Command packaging makes a release of lmserve. For every target it makes an archive with a static
// binary, the manual, completions and licenses. It also lists the components of the binary. For
// Linux it makes packages (.deb and .rpm) and a container image. It writes the checksums of all
// files.
//
// The files do not depend on the place or time of the build: two runs at the same commit give
// identical bytes. All times in the files are the time of the commit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	source := flag.String("source", "..", "root of the repository")
	out := flag.String("out", "../dist", "folder to write to, which is emptied first")
	targets := flag.String("targets", allTargets,
		"systems and processors, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := release(ctx, *source, *out, strings.Split(*targets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func release(ctx context.Context, source, out string, targets []string) error {
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	rev, err := revisionOf(ctx, source)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "lmserve-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	b := builder{source: source, work: work, rev: rev}
	docs, err := b.documents(ctx)
	if err != nil {
		return err
	}
	for _, name := range targets {
		t, err := parseTarget(name)
		if err != nil {
			return err
		}
		fmt.Println(name)
		if err := b.release(ctx, t, docs, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return writeChecksums(out)
}

func (b *builder) release(ctx context.Context, t target, docs tree, out string) error {
	binary, err := b.build(ctx, t)
	if err != nil {
		return err
	}
	needs, err := b.dependencies(ctx, t, binary)
	if err != nil {
		return err
	}
	files := docs.with(licenseFiles(needs))
	base := filepath.Join(out, fmt.Sprintf("lmserve_%s_%s_%s", b.rev.fileVersion(), t.os, t.arch))
	if err := b.writeSBOM(base+".cdx.json", t, binary, needs); err != nil {
		return err
	}
	if err := b.writeArchive(base, t, binary, files); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	if err := b.writePackages(base, t, binary, files); err != nil {
		return err
	}
	return b.writeImage(base+".image.tar", t, binary, files)
}
