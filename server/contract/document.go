package contract

import (
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/api/whole"
)

// Document returns the contract, parsed once. All callers share the result: nobody may change it.
// The tests of this package check that the contract is valid, so that no start of a server has to.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(whole.Of(api.YAML))
	if err != nil {
		return nil, fmt.Errorf("contract: openapi.yaml: %w", err)
	}
	return doc, nil
})
