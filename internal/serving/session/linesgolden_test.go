package session

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

var update = flag.Bool("update", false, "write testdata/*.jsonl instead of comparing with it")

type goldenLine struct {
	Number   int64   `json:"number"`
	Offset   int64   `json:"offset"`
	Bits     float64 `json:"bits"`
	Baseline float64 `json:"baseline_bits"`
	P        float64 `json:"p"`
	Rank     int64   `json:"rank"`
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Learnt   bool    `json:"learnt"`
}

func goldenText() string {
	log := func(lines int) string { return whole(0, lines) }
	return log(40) + "kernel: out of memory: killed process 4711 (postgres), of which nothing is " +
		"left\n" +
		log(8) + "5 GET /../../etc/passwd\n" + log(8) + "\n" + "\x00\xff\xfe\n" + log(8)
}

// The results of a session that learns by lines are compared with a golden file, bit by bit. The
// file contains the cost and the strangeness of each line, whether the line was learned, and the
// final state. There is one file per arithmetic. After an intended change, run `go test -run Golden
// -update` with and without `-tags noasm` to write the files again. Such a change alters the bits
// of existing sessions.
func TestGoldenLinesUnderOneAndManyThreads(t *testing.T) {
	requireGolden(t, "lines", func(threads int) []byte {
		return goldenRun(t, newManager(t, Options{Threads: threads}), goldenText())
	})
}

func requireGolden(t *testing.T, name string, run func(threads int) []byte) {
	path := filepath.Join("testdata", name+"."+kernel.Arithmetic{}.Numerics()+".jsonl")
	for i, threads := range []int{1, 2, 5} {
		found := run(threads)
		if *update && i == 0 {
			require.NoError(t, os.WriteFile(path, found, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(found), "%d threads", threads)
	}
}

// goldenRun feeds a text with each method that learns line by line. It returns the names of the
// methods, their lines and their final states.
func goldenRun(t *testing.T, mg *Manager, text string) []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, method := range []string{
		MethodSparseMeta, MethodDynamicSGD, MethodDynamicRMS, MethodStatic,
	} {
		settings := Settings{"method": method, "baseline": true, "companion": false}
		id := create(t, mg, CreateRequest{Settings: settings})
		require.NoError(t, out.Encode(method))
		skipped := 0
		ended, _ := watch(t, mg, id, unflagged, text)
		for _, l := range ended {
			if l.Unlearnt {
				skipped++
			}
			require.NoError(t, out.Encode(goldenLine{
				Number: l.Number, Offset: l.Offset, Bits: l.Bits, Baseline: *l.BaselineBits,
				P: l.P, Rank: l.Rank(), From: l.From, To: l.To, Learnt: !l.Unlearnt,
			}))
		}
		require.NotZero(t, skipped, "or nothing was tested")
		require.NoError(t, out.Encode(hash(t, mg, id)))
	}
	return b.Bytes()
}
