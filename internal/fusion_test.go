package internal_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// exact lists the packages whose arithmetic determines a session's bits.
var exact = []string{
	"txl", "sparsemeta", "tokenizer", "weights",
	"internal/arithmetic/kernel", "internal/arithmetic/companion", "internal/arithmetic/model",
	"internal/arithmetic/stream", "internal/arithmetic/lines",
	"internal/arithmetic/changes",
}

// fused matches an arm64 instruction that multiplies and adds with a single rounding, in the
// assembly listing of go build -gcflags=-S. The first group is the source line.
var fused = regexp.MustCompile(`\(([^()\s]+\.go:\d+)\)\s+(FN?M(?:ADD|SUB)[SD])\b`)

// The Go compiler may compute x*y + z with one rounding instead of two. It does so on arm64, and
// results then differ from amd64. An explicit conversion forces both roundings: float32(x*y) + z.
func TestNoProductIsFusedWithASum(t *testing.T) {
	if os.Getenv("LMSERVE_TEST_FUSION") == "" {
		t.Skip("make test-arm64 compiles for arm64")
	}
	args := []string{"build", "-gcflags=-S"}
	for _, name := range exact {
		args = append(args, module+name)
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := build.CombinedOutput()
	require.NoError(t, err, "%s", listing[max(0, len(listing)-1000):])
	require.Contains(t, string(listing), "FMUL", "the listing is the compiler's for arm64")
	for _, found := range fused.FindAllSubmatch(listing, -1) {
		t.Errorf(
			"%s: the compiler makes %s of a product and a sum: convert the product to its type",
			found[1], found[2])
	}
}
