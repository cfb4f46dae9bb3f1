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

// Contract is api/openapi.yaml made ready for the middleware: what each route takes and gives.
type Contract struct {
	operations map[string]*Operation // by method and path, "POST /v1/sessions"
}

// Operation is one operation of the contract.
type Operation struct {
	route   *routers.Route
	Offers  []string // media types of its success, the preferred first; none if success has no content
	Accepts []string // media types of its body; none if it takes no body
	Public  bool     // it needs no key
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
			op.Security = openapi3.NewSecurityRequirements() // keys are authenticate's: validation would read the body to check them
			c.operations[method+" "+path] = &Operation{
				route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
				Offers:  OffersOf(op),
				Accepts: acceptsOf(op),
				Public:  public,
			}
		}
	}
	return c, nil
}

// OffersOf lists the media types in which an operation's success may come. JSON goes before everything, the rest is in alphabetical order.
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

// Operation finds what a routed request asks for. A HEAD is its GET.
func (c *Contract) Operation(r *http.Request) *Operation {
	return c.operations[GetForHead(r.Method)+" "+chi.RouteContext(r.Context()).RoutePattern()]
}

// TakesFile reports whether the operation's body is an exported session.
func (o *Operation) TakesFile() bool { return slices.Contains(o.Accepts, MediaZstd) }

// parameter finds a parameter of the operation by its name, or gives nil.
func (o *Operation) parameter(name string) *openapi3.Parameter {
	for _, list := range []openapi3.Parameters{o.route.Operation.Parameters, o.route.PathItem.Parameters} {
		for _, ref := range list {
			if ref.Value.Name == name {
				return ref.Value
			}
		}
	}
	return nil
}

// Find finds the route of a request before chi does, and whether the contract makes it public.
func (c *Contract) Find(router chi.Routes, r *http.Request) (pattern string, public bool) {
	path := r.URL.RawPath // as chi chooses
	if path == "" {
		path = r.URL.Path
	}
	pattern = router.Find(chi.NewRouteContext(), GetForHead(r.Method), path)
	op := c.operations[GetForHead(r.Method)+" "+pattern]
	return pattern, op != nil && op.Public
}

// GetForHead is the method whose operation answers a request.
func GetForHead(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}
