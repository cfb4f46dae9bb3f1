package contract

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Lone surrogates are exactly what encoding/json cannot keep: text without them survives decoding
// and encoding.
func FuzzLoneSurrogate(f *testing.F) {
	for _, seed := range []string{`a\ud83d\ude00`, `\ud83d`, `\\ud83d`, `\ude00\ud83d`, `\u00e9\uD83D\u0041`, `\"\\\/\b`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := []byte(`"` + s + `"`)
		var text string
		if !utf8.Valid(raw) || json.Unmarshal(raw, &text) != nil {
			return
		}
		if strings.Contains(s, "\uFFFD") || strings.Contains(strings.ToLower(s), `\ufffd`) {
			return // what encoding/json puts for what it cannot keep
		}
		replaced := strings.ContainsRune(text, utf8.RuneError)
		i := loneSurrogate(raw)
		if replaced != (i >= 0) {
			t.Fatalf("%s: lone surrogate at %d, but encoding/json makes it %q", raw, i, text)
		}
		if i >= 0 {
			u, ok := unicodeEscape(raw[i:])
			require.True(t, ok && utf16.IsSurrogate(rune(u)))
		}
	})
}
