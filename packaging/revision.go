package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

type revision struct {
	version string // semantic version with the prefix "v", as in Go modules
	hash    string
	time    time.Time // time of the commit, in UTC
}

func (r revision) fileVersion() string { return strings.TrimPrefix(r.version, "v") }

// revisionOf returns the revision of a checkout. The version is the tag of its commit. Without a
// tag, the version is a pseudo-version of Go modules after the last tag. The suffix +dirty says
// that files differ from the commit.
func revisionOf(ctx context.Context, dir string) (revision, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir},
			args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	about, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return revision{}, err
	}
	hash, seconds, _ := strings.Cut(about, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return revision{}, err
	}
	r := revision{hash: hash, time: time.Unix(unix, 0).UTC()}
	const tags = "v[0-9]*.[0-9]*.[0-9]*"
	r.version, err = git("describe", "--tags", "--exact-match", "--match", tags)
	if err != nil {
		last, err := git("describe", "--tags", "--abbrev=0", "--match", tags)
		if err != nil {
			last = "" // no release yet
		}
		r.version = module.PseudoVersion("", last, r.time, hash[:12])
	}
	changed, err := git("status", "--porcelain")
	if changed != "" {
		r.version += "+dirty"
	}
	return r, err
}
