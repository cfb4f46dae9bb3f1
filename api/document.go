package api

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// YAML is the contract, openapi.yaml as it is. The types and routes of this package are generated
// from it, and the server serves it.
//
//go:embed openapi.yaml
var YAML []byte

// Document gives the contract, parsed once. It is shared: nobody may change it. Whether it is valid
// is a matter for the tests of this package, and not for every start of a server.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(YAML)
	if err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	return doc, nil
})
