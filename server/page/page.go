// Package page is the page at "/": a document, its style and its script, embedded in the binary.
// They are made of the sources in src by `make page` (esbuild), and need no network. What the page
// does it does through the operations of the contract, as any other client.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Policy is the Content-Security-Policy of the page: its own script and style, and this server's
// answers; nothing that is written into the document is ever run, and no string becomes HTML.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

//go:embed dist/index.html dist/page.css dist/page.js
var dist embed.FS

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// The files of the page, each compressed when it is first asked for.
var (
	Document = sync.OnceValues(func() (*File, error) { return open("index.html") })
	Style    = sync.OnceValues(func() (*File, error) { return open("page.css") })
	Script   = sync.OnceValues(func() (*File, error) { return open("page.js") })
)

// File is a file of the page in both of its forms.
type File struct {
	mediaType string
	etag      string // without its quotes
	plain     []byte
	gzipped   []byte
}

func open(name string) (*File, error) {
	plain, err := dist.ReadFile("dist/" + name)
	if err != nil {
		return nil, err
	}
	var gzipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&gzipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(plain)
	return &File{mediaTypes[path.Ext(name)], hex.EncodeToString(sum[:12]), plain, gzipped.Bytes()},
		nil
}

// Answer sends the file, or 304 to a client that has it. The arguments are the request's headers of
// these names.
func (f *File) Answer(w http.ResponseWriter, acceptEncoding, ifNoneMatch string) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // it is asked every time whether there is a new one
	h.Add("Vary", "Accept-Encoding")
	content, etag := f.plain, f.etag
	if takesGzip(acceptEncoding) {
		content, etag = f.gzipped, f.etag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", strconv.Quote(etag))
	h.Set("Content-Length", strconv.Itoa(len(content)))
	asked := &http.Request{Method: http.MethodGet, Header: http.Header{}}
	if ifNoneMatch != "" {
		asked.Header.Set("If-None-Match", ifNoneMatch)
	}
	http.ServeContent(w, asked, "", time.Time{}, bytes.NewReader(content))
}

// takesGzip reports whether an Accept-Encoding (RFC 9110, section 12.5.3) names gzip.
func takesGzip(acceptEncoding string) bool {
	for coding := range strings.SplitSeq(acceptEncoding, ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, _ := strings.Cut(weight, "=")
			share, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return err != nil || share > 0
		}
	}
	return false
}
