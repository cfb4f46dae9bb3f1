package api

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// YAML is the contract, openapi.yaml as it is. The types and routes of this package are generated
// from it, and the server serves it.
//
//go:embed openapi.yaml
var YAML []byte

// Document parses and validates the contract. Every call makes a new document.
func Document() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(YAML)
	if err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	return doc, nil
}
