// Package docs renders the contract, api/openapi.yaml, as an HTML page in file order, with every
// example. The page needs no network, no JavaScript and no other file.
package docs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"sync"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/api/whole"
	"github.com/lmserve/lmserve/server/contract"
)

//go:embed page.html
var layout string

//go:embed style.css
var style string

// Policy is the page's Content-Security-Policy. It allows only the page's own style.
var Policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Page returns the contract as an HTML page. It renders the page only once.
var Page = sync.OnceValues(func() ([]byte, error) {
	doc, err := contract.Document()
	if err != nil {
		return nil, err
	}
	s, err := readSource(whole.Of(api.YAML))
	if err != nil {
		return nil, err
	}
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, err
	}
	v, err := newView(doc, s, template.CSS(style))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
})
