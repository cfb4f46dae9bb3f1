package session

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// typed is a sequence of key presses of a person who writes code; \b deletes the last character.
const typed = "// count tells how mnay\b\b\b\bany sessions of a caler\b\bler there are, the\n" +
	"// shadows among them.\nfunc (mg *Manager) count(who Caller) (n itn\b\bnt, err error) {\n" +
	"\tfor after := \"\"; ; {\n\t\tpage, next, err := mg.List(who, after, ListMax)\n" +
	"\t\tif err != nil {\n\t\t\treturn 0, errr\b\n\t\t}\n\t\tn += len(page)\n" +
	"\t\tif next == \"\" {\n\t\t\tretunr\b\brn n, nil\n\t\t}\n\t\tafter = next\n\t}\n}\n"

// BenchmarkKeys measures the cost of a completion per key press. An editor sends the text before
// and after the cursor with each key. known uses the cache; new does not.
func BenchmarkKeys(b *testing.B) {
	const before = 12000
	text, err := os.ReadFile("manager.go")
	require.NoError(b, err)
	for _, name := range []string{"swift", "default"} {
		m, err := model.Place{Name: name}.Load()
		require.NoError(b, err)
		for _, suffix := range [][]byte{nil, text[before:]} {
			for _, known := range []bool{true, false} {
				what := map[bool]string{true: "known", false: "new"}[known]
				how := map[bool]string{true: "plain", false: "suffix"}[suffix == nil]
				b.Run(fmt.Sprintf("%s/%s/%s", name, how, what), func(b *testing.B) {
					mg := newManagerOf(b, m, Options{})
					prompt, key := slices.Clone(text[:before]), 0
					var walls []time.Duration
					press := func(owner string) {
						if c := typed[key%len(typed)]; c == '\b' {
							prompt = prompt[:len(prompt)-1]
						} else {
							prompt = append(prompt, c)
						}
						key++
						begun := time.Now()
						r := BatchRequest{
							Prompts: [][]byte{bytes.Clone(prompt)}, Suffix: suffix, N: 1,
							MaxTokens:   24,
							Temperature: new(float64), Stop: []string{"\n"},
						}
						who := Caller{Key: owner}
						require.NoError(b, mg.CompleteBatch(background, who, "", r, noPieces))
						walls = append(walls, time.Since(begun))
					}
					if known {
						press("")
						walls = walls[:0]
					}
					spent := processorNS(b)
					for i := 0; b.Loop(); i++ {
						owner := ""
						if !known {
							owner = fmt.Sprint(i)
						}
						press(owner)
					}
					b.ReportMetric(float64(processorNS(b)-spent)/1e6/float64(len(walls)),
						"cpu-ms/key")
					slices.Sort(walls)
					b.ReportMetric(float64(walls[len(walls)/2])/1e6, "p50-ms")
				})
			}
		}
	}
}
