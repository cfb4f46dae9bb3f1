// Package contract is api/openapi.yaml as the server uses it: which operation a request asks for,
// the media types it takes and gives, and whether a request keeps to it. What does not is told as a
// problem, in words made from the contract's schemas.
package contract

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
)

// Contract is api/openapi.yaml made ready for use: what each route takes and gives.
type Contract struct {
	operations map[string]*Operation // by method and path, "POST /v1/sessions"
}

// Operation is one operation of the contract.
type Operation struct {
	Offers  []string // media types of a success, the preferred first; none if it has no content
	Accepts []string // media types of the body; none if the operation takes no body
	Public  bool     // a request needs no key

	route *routers.Route
}

// Load reads the embedded contract.
func Load() (*Contract, error) {
	doc, err := api.Document()
	if err != nil {
		return nil, err
	}
	c := &Contract{operations: map[string]*Operation{}}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			public := op.Security != nil && len(*op.Security) == 0
			// Authentication is a middleware of its own: here it would read the body first.
			op.Security = openapi3.NewSecurityRequirements()
			c.operations[method+" "+path] = &Operation{
				Offers:  OffersOf(op),
				Accepts: acceptsOf(op),
				Public:  public,
				route: &routers.Route{
					Spec: doc, Path: path, PathItem: item, Method: method, Operation: op,
				},
			}
		}
	}
	return c, nil
}

// OffersOf lists the media types in which an operation's success may come: JSON first, the rest in
// alphabetical order.
func OffersOf(op *openapi3.Operation) []string {
	var offers []string
	for status, response := range op.Responses.Map() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		for media := range response.Value.Content {
			offers = append(offers, media)
		}
	}
	slices.SortFunc(offers, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == MediaJSON:
			return -1
		case b == MediaJSON:
			return 1
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(offers)
}

// acceptsOf lists the media types of an operation's body, in alphabetical order.
func acceptsOf(op *openapi3.Operation) []string {
	if op.RequestBody == nil {
		return nil
	}
	var accepts []string
	for media := range op.RequestBody.Value.Content {
		accepts = append(accepts, media)
	}
	slices.Sort(accepts)
	return accepts
}

// Operation finds the operation that a request asks for, once the router has found its route.
func (c *Contract) Operation(r *http.Request) *Operation {
	return c.operations[GetForHead(r.Method)+" "+chi.RouteContext(r.Context()).RoutePattern()]
}

// TakesFile reports whether the operation's body is an exported session.
func (o *Operation) TakesFile() bool { return slices.Contains(o.Accepts, MediaZstd) }

// parameter finds a parameter of the operation by its name; nil if there is none.
func (o *Operation) parameter(name string) *openapi3.Parameter {
	for _, ref := range slices.Concat(o.route.Operation.Parameters, o.route.PathItem.Parameters) {
		if ref.Value.Name == name {
			return ref.Value
		}
	}
	return nil
}

// Find finds the route of a request before the router does, and whether the contract makes the
// route public.
func (c *Contract) Find(router chi.Routes, r *http.Request) (pattern string, public bool) {
	path := r.URL.RawPath // chi chooses between the two in the same way
	if path == "" {
		path = r.URL.Path
	}
	pattern = router.Find(chi.NewRouteContext(), GetForHead(r.Method), path)
	op := c.operations[GetForHead(r.Method)+" "+pattern]
	return pattern, op != nil && op.Public
}

// GetForHead is the method whose operation answers a request: GET for HEAD, the method itself
// otherwise.
func GetForHead(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}
