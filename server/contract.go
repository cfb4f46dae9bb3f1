package server

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
)

const (
	mediaJSON        = "application/json"
	mediaProblem     = "application/problem+json"
	mediaNDJSON      = "application/x-ndjson"
	mediaEventStream = "text/event-stream"
	mediaOctetStream = "application/octet-stream"
	mediaZstd        = "application/zstd"
)

// contract is api/openapi.yaml made ready for the middleware: what each route takes and gives.
type contract struct {
	operations map[string]*operation // by method and path, "POST /v1/sessions"
}

// operation is one operation of the contract.
type operation struct {
	route   *routers.Route
	offers  []string // media types of its success, the preferred first; none if success has no content
	accepts []string // media types of its body; none if it takes no body
	public  bool     // it needs no key
}

// loadContract reads the embedded contract.
func loadContract() (*contract, error) {
	doc, err := api.Document()
	if err != nil {
		return nil, err
	}
	c := &contract{operations: map[string]*operation{}}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			public := op.Security != nil && len(*op.Security) == 0
			op.Security = openapi3.NewSecurityRequirements() // keys are authenticate's: validation would read the body to check them
			c.operations[method+" "+path] = &operation{
				route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
				offers:  offersOf(op),
				accepts: acceptsOf(op),
				public:  public,
			}
		}
	}
	return c, nil
}

// offersOf lists the media types in which an operation's success may come. JSON goes before everything, the rest is in alphabetical order.
func offersOf(op *openapi3.Operation) []string {
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
		case a == mediaJSON:
			return -1
		case b == mediaJSON:
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

// operation finds what a routed request asks for. A HEAD is its GET.
func (c *contract) operation(r *http.Request) *operation {
	return c.operations[getForHead(r.Method)+" "+chi.RouteContext(r.Context()).RoutePattern()]
}

// takesFile reports whether the operation's body is an exported session.
func (o *operation) takesFile() bool { return slices.Contains(o.accepts, mediaZstd) }

// parameter finds a parameter of the operation by its name, or gives nil.
func (o *operation) parameter(name string) *openapi3.Parameter {
	for _, list := range []openapi3.Parameters{o.route.Operation.Parameters, o.route.PathItem.Parameters} {
		for _, ref := range list {
			if ref.Value.Name == name {
				return ref.Value
			}
		}
	}
	return nil
}

// hasBody reports whether the request brings a body, as far as its headers tell.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// mediaTypeOf parses a Content-Type. Without one, or if it cannot be parsed, the type is "".
func mediaTypeOf(contentType string) (media string, params map[string]string) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil
	}
	return media, params
}
