// Package page has the web page at "/": a document with its style and script, embedded in the
// binary. `make page` builds them from src with esbuild, without network access. The page uses only
// operations of api/openapi.yaml, like any other client.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Policy is the page's Content-Security-Policy. It allows the page's own script and style, and
// requests to this server. Text in the document never runs as script, and no string becomes HTML.
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

// Style and Script return the page's files. Each file is compressed on first use.
var (
	Style  = sync.OnceValues(func() (*File, error) { return open("page.css") })
	Script = sync.OnceValues(func() (*File, error) { return open("page.js") })
)

const versionMeta = `<meta name="version" content="%s">`

// documents maps a version to a func() (*File, error) that returns the version's document.
var documents sync.Map

// Document returns the page's document, with the server's version for the page to show. With
// version "", the page shows no version.
func Document(version string) (*File, error) {
	open, _ := documents.LoadOrStore(version, sync.OnceValues(func() (*File, error) {
		plain, err := dist.ReadFile("dist/index.html")
		if err != nil {
			return nil, err
		}
		element := fmt.Sprintf(versionMeta, html.EscapeString(version))
		text := strings.Replace(string(plain), fmt.Sprintf(versionMeta, ""), element, 1)
		return newFile("index.html", []byte(text))
	}))
	return open.(func() (*File, error))()
}

// File is a file of the page, plain and compressed.
type File struct {
	mediaType string
	etag      string // without quotes
	plain     []byte
	gzipped   []byte
}

func open(name string) (*File, error) {
	plain, err := dist.ReadFile("dist/" + name)
	if err != nil {
		return nil, err
	}
	return newFile(name, plain)
}

func newFile(name string, plain []byte) (*File, error) {
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

// Answer sends the file, or status 304 if the client already has the file. The arguments are the
// values of the request headers Accept-Encoding and If-None-Match.
func (f *File) Answer(w http.ResponseWriter, acceptEncoding, ifNoneMatch string) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // clients revalidate on every use
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

// takesGzip reports whether the header Accept-Encoding (RFC 9110, section 12.5.3) allows gzip.
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
