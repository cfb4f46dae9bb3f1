// Package contract is api/openapi.yaml as the server uses it: which operation a request asks for,
// the media types it takes and gives, and whether a request keeps to it. What does not is told as a
// problem, in words made from the contract's schemas.
package contract

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/internal/strictjson"
)

// Contract is api/openapi.yaml made ready for use: what each route takes and gives.
type Contract struct {
	operations map[string]*Operation // by method and path, "POST /v1/sessions"
	openAI     map[string]bool       // paths of operations with the tag of OpenAI's interface
}

// Operation is one operation of the contract.
type Operation struct {
	Offers  []string // media types of a success, the preferred first; none if it has no content
	Accepts []string // media types of the body; none if the operation takes no body
	Public  bool     // a request needs no key
	Codings []string // content codings of the body, beside identity
	Records bool     // the body may be records of a log shipper, see middleware.Records
	Raw     bool     // the body is not held against the contract, in whatever media type it comes

	bounds strictjson.Bounds // of a JSON body
	route  *routers.Route
}

// openAITag is the tag of the operations of OpenAI's interface.
const openAITag = "openai"

// Load reads the embedded contract.
func Load() (*Contract, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	c := &Contract{operations: map[string]*Operation{}, openAI: map[string]bool{}}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			// Authentication is a middleware of its own: here it would read the body first.
			unkeyed := *op
			unkeyed.Security = openapi3.NewSecurityRequirements()
			c.operations[method+" "+path] = &Operation{
				Offers:  OffersOf(op),
				Accepts: acceptsOf(op),
				Public:  op.Security != nil && len(*op.Security) == 0,
				Codings: codingsOf(op),
				Records: marked(op, "x-records"),
				Raw:     marked(op, "x-raw"),
				bounds:  boundsOf(op),
				route: &routers.Route{
					Spec: doc, Path: path, PathItem: item, Method: method, Operation: &unkeyed,
				},
			}
			if slices.Contains(op.Tags, openAITag) {
				c.openAI[path] = true
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
		offers = slices.AppendSeq(offers, maps.Keys(response.Value.Content))
	}
	slices.Sort(offers)
	offers = slices.Compact(offers)
	if i := slices.Index(offers, MediaJSON); i > 0 {
		offers = slices.Insert(slices.Delete(offers, i, i+1), 0, MediaJSON)
	}
	return offers
}

// acceptsOf lists the media types of an operation's body, in alphabetical order.
func acceptsOf(op *openapi3.Operation) []string {
	if op.RequestBody == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(op.RequestBody.Value.Content))
}

// marked reports whether an extension of an operation's body is true.
func marked(op *openapi3.Operation, extension string) bool {
	return op.RequestBody != nil && op.RequestBody.Value.Extensions[extension] == true
}

// codingsOf lists the content codings of an operation's body, beside identity.
func codingsOf(op *openapi3.Operation) (names []string) {
	if op.RequestBody == nil {
		return nil
	}
	all, _ := op.RequestBody.Value.Extensions["x-content-encodings"].([]any)
	for _, one := range all {
		names = append(names, one.(string))
	}
	return names
}

// Operation finds the operation that a request asks for, once the router has found its route.
func (c *Contract) Operation(r *http.Request) *Operation {
	return c.operations[GetForHead(r.Method)+" "+chi.RouteContext(r.Context()).RoutePattern()]
}

// Methods lists the methods that operations of the contract have, and HEAD.
func (c *Contract) Methods() []string {
	methods := []string{http.MethodHead}
	for key := range c.operations {
		method, _, _ := strings.Cut(key, " ")
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// AnswerHeaders lists the headers that answers of some operation have, in alphabetical order.
func (c *Contract) AnswerHeaders() (names []string) {
	for _, op := range c.operations {
		for _, response := range op.route.Operation.Responses.Map() {
			names = slices.AppendSeq(names, maps.Keys(response.Value.Headers))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TakesFile reports whether the operation's body is an exported session.
func (o *Operation) TakesFile() bool { return slices.Contains(o.Accepts, MediaTar) }

// parameter finds a parameter of the operation by its name; nil if there is none.
func (o *Operation) parameter(name string) *openapi3.Parameter {
	for _, ref := range slices.Concat(o.route.Operation.Parameters, o.route.PathItem.Parameters) {
		if ref.Value.Name == name {
			return ref.Value
		}
	}
	return nil
}

// IsOpenAI reports whether the path of a request is one of OpenAI's interface, whatever the method.
// The router need not have found its route. Paths of that interface that are not here count, too.
func (c *Contract) IsOpenAI(router chi.Routes, r *http.Request) bool {
	if InsteadOf(routePath(r)) != "" {
		return true
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if c.openAI[router.Find(chi.NewRouteContext(), method, routePath(r))] {
			return true
		}
	}
	return false
}

// routePath is the path that chi routes a request by.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// Find finds the route of a request before the router does, and whether the contract makes the
// route public.
func (c *Contract) Find(router chi.Routes, r *http.Request) (pattern string, public bool) {
	pattern = router.Find(chi.NewRouteContext(), GetForHead(r.Method), routePath(r))
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
