package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operations is the page whose sections are tested separately, each in a new folder that contains
// only the program. Every other page is tested from top to bottom in a checkout.
const operations = "docs/operations.md"

// arithmetic names the number type and the instruction set that computed the outputs on the pages.
const arithmetic = "float32-fma"

const tools = "base64 bash curl cut dd fold git go grep head jq make openssl sed seq sha256sum " +
	"tar zstd"

// Each command on a documentation page prints the output that the page shows. The index of the
// pages lists exceptions, with reasons. Ids, dates and long numbers may differ.
//
// If a page omits part of an output, the test also requires exit code 0. With other numerics than
// the pages, the test checks only the exit code.
func TestCommandsOfPagesWorkAsPrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for tool := range strings.FieldsSeq(tools) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if os.Getenv("LMSERVE_TEST_DOCS") == "" {
		t.Skip("make test-docs types the commands in")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "lmserve")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/lmserve")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	version, err := exec.Command(program, "version").Output()
	require.NoError(t, err)
	r := reader{root, program, exceptions(t), strings.Contains(string(version), arithmetic)}
	for _, p := range pages(t) {
		if len(p.commands()) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(p.name, "docs/"), func(t *testing.T) {
			t.Parallel()
			r.read(t, p)
		})
	}
}

type reader struct {
	root, program string
	untyped       []exception
	compares      bool
}

func (r *reader) read(t *testing.T, p page) {
	changed := map[int][]string{}
	var s *shell
	section := ""
	for _, c := range p.commands() {
		if r.excepted(p, c) {
			continue
		}
		if s == nil || p.name == operations && c.section != section {
			s, section = newShell(t, r.folder(t, p)), c.section
		}
		want := p.want(c)
		got, code := s.run(c.text, len(want))
		same := sameOutput(want, got)
		switch {
		case !r.compares || elided(want):
			require.Zero(t, code, "%s, line %d: $ %s\n%s", p.name, c.from, c.text,
				strings.Join(got, "\n"))
		case !same && os.Getenv("LMSERVE_UPDATE_DOCS") != "":
			changed[c.from] = got
		}
		if r.compares && !same && changed[c.from] == nil {
			require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "%s, line %d: $ %s",
				p.name, c.from, c.text)
		}
	}
	if len(changed) > 0 {
		require.NoError(t, os.WriteFile(filepath.Join(r.root, p.name), p.with(changed), 0o644))
	}
}

// excepted reports whether the index of the pages excludes a command from the test. If
// LMSERVE_TEST_LONG is set, commands of `make test-long` are tested, too.
func (r *reader) excepted(p page, c command) bool {
	n := slices.IndexFunc(r.untyped, func(e exception) bool { return e.is(p, c) })
	return n >= 0 && !(r.untyped[n].long && os.Getenv("LMSERVE_TEST_LONG") != "")
}

// folder makes a folder with the program as bin/lmserve. For every page except operations, the
// folder also has links to the other files of the checkout.
func (r *reader) folder(t *testing.T, p page) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	content, err := os.ReadFile(r.program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "lmserve"), content, 0o700))
	if p.name == operations {
		return dir
	}
	entries, err := os.ReadDir(r.root)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" {
			require.NoError(t, os.Symlink(filepath.Join(r.root, e.Name()),
				filepath.Join(dir, e.Name())))
		}
	}
	return dir
}
