// Package contract prepares api/openapi.yaml, the contract, for the server. It finds the operation
// of a request, negotiates media types, and validates requests. Its problem documents describe what
// the contract's schemas accept.
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

// Contract is api/openapi.yaml prepared for use.
type Contract struct {
	operations map[string]*Operation // keyed by method and path, such as "POST /v1/sessions"
	openAI     map[string]bool       // paths of operations with the tag openai
}

// Operation is one operation of the contract.
type Operation struct {
	// media types of a successful answer, preferred first; empty without content
	Offers  []string
	Accepts []string // media types of the request's body; empty if the operation takes no body
	Public  bool     // requests need no key
	Codings []string // content codings of the request's body, besides identity
	Records bool     // The body may hold log records, see middleware.Records.
	Raw     bool     // the body is not validated, whatever its media type

	bounds strictjson.Bounds
	route  *routers.Route
}

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
			// Validation must not check keys: a middleware has checked them before the body is
			// read.
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

// OffersOf lists the media types of an operation's successful answers: JSON first, then the others
// alphabetically.
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

func acceptsOf(op *openapi3.Operation) []string {
	if op.RequestBody == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(op.RequestBody.Value.Content))
}

func marked(op *openapi3.Operation, extension string) bool {
	return op.RequestBody != nil && op.RequestBody.Value.Extensions[extension] == true
}

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

// Operation returns the operation of a request. The router must have routed the request before.
func (c *Contract) Operation(r *http.Request) *Operation {
	return c.operations[GetForHead(r.Method)+" "+chi.RouteContext(r.Context()).RoutePattern()]
}

// Methods lists the methods of the contract's operations, and HEAD.
func (c *Contract) Methods() []string {
	methods := []string{http.MethodHead}
	for key := range c.operations {
		method, _, _ := strings.Cut(key, " ")
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// AnswerHeaders lists the headers of all operations' answers alphabetically.
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

func (o *Operation) parameter(name string) *openapi3.Parameter {
	for _, ref := range slices.Concat(o.route.Operation.Parameters, o.route.PathItem.Parameters) {
		if ref.Value.Name == name {
			return ref.Value
		}
	}
	return nil
}

// IsOpenAI reports whether a request's path belongs to OpenAI's interface, with any method. It can
// be called before routing, and includes OpenAI's paths that the server lacks.
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

// routePath returns the path that chi matches.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// Find returns the route of a request before the router runs, and whether the route is public.
func (c *Contract) Find(router chi.Routes, r *http.Request) (pattern string, public bool) {
	pattern = router.Find(chi.NewRouteContext(), GetForHead(r.Method), routePath(r))
	op := c.operations[GetForHead(r.Method)+" "+pattern]
	return pattern, op != nil && op.Public
}

// GetForHead returns the method whose operation answers a request: GET for HEAD, otherwise the
// method itself.
func GetForHead(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}
