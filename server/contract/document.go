package contract

import (
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/api/whole"
)

// Document returns the parsed contract. Callers must not change the result, because it is shared.
// The tests of this package validate the contract, so Document does not.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(whole.Of(api.YAML))
	if err != nil {
		return nil, fmt.Errorf("contract: openapi.yaml: %w", err)
	}
	return doc, nil
})
