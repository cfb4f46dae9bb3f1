package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// sizeMax is the limit in bytes on the compressed page.
const sizeMax = 300 << 10

func files(t *testing.T) []*File {
	t.Helper()
	document := func() (*File, error) { return Document("v1") }
	var all []*File
	for _, open := range []func() (*File, error){document, Style, Script} {
		f, err := open()
		require.NoError(t, err)
		all = append(all, f)
	}
	return all
}

func TestDocumentHasVersion(t *testing.T) {
	for version, want := range map[string]string{
		"":        `<meta name="version" content="">`,
		"v1.2.3":  `<meta name="version" content="v1.2.3">`,
		`"><b>&'`: `<meta name="version" content="&#34;&gt;&lt;b&gt;&amp;&#39;">`,
	} {
		f, err := Document(version)
		require.NoError(t, err)
		require.Contains(t, string(f.plain), want)
	}
}

func TestWholePageIsSmall(t *testing.T) {
	total := 0
	for _, f := range files(t) {
		total += len(f.gzipped)
	}
	require.Less(t, total, sizeMax)
	t.Logf("the page has %d bytes, compressed", total)
}

// build.mjs writes a checksum of the sources to dist. If this test fails, run `make page`.
func TestCommittedPageMatchesItsSources(t *testing.T) {
	names := []string{"build.mjs", "package-lock.json"}
	require.NoError(t, filepath.WalkDir("src", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		// A checkout on Windows may have CRLF line ends.
		raw = bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))
		fmt.Fprintf(all, "%s %x\n", name, sha256.Sum256(raw))
	}
	built, err := os.ReadFile("dist/sources.sha256")
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(all.Sum(nil)), strings.TrimSpace(string(built)),
		"the page was not built of these sources: run `make page` and commit server/page/dist")
}

func TestFilesAreCompressedIfClientAccepts(t *testing.T) {
	for _, f := range files(t) {
		for acceptEncoding, encoding := range map[string]string{
			"": "", "br": "", "gzip": "gzip", "gzip;q=0": "", "GZIP; q=0.5": "gzip",
			"gzip, deflate, br, zstd": "gzip",
		} {
			w := httptest.NewRecorder()
			f.Answer(w, acceptEncoding, "")
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, encoding, w.Header().Get("Content-Encoding"), acceptEncoding)
			require.Equal(t, fmt.Sprint(w.Body.Len()), w.Header().Get("Content-Length"))
			content := w.Body.Bytes()
			if encoding == "gzip" {
				r, err := gzip.NewReader(w.Body)
				require.NoError(t, err)
				var plain bytes.Buffer
				_, err = plain.ReadFrom(r)
				require.NoError(t, err)
				content = plain.Bytes()
			}
			require.Equal(t, f.plain, content)

			again := httptest.NewRecorder()
			f.Answer(again, acceptEncoding, w.Header().Get("ETag"))
			require.Equal(t, http.StatusNotModified, again.Code)
			require.Zero(t, again.Body.Len())
		}
	}
}

func TestPageMayOnlyAskThisServer(t *testing.T) {
	for _, f := range files(t) {
		w := httptest.NewRecorder()
		f.Answer(w, "", "")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		policy := w.Header().Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		} {
			require.Contains(t, policy, part)
		}
		require.NotContains(t, policy, "unsafe")
	}
}
