package docs

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

type view struct {
	Title, Version string
	Style          template.CSS
	Intro          template.HTML
	Groups         []group
	Problems       []problem
	Schemas        []object
	Limits         []limit
}

// group is the operations of one tag. An operation with several tags belongs to the last tag.
type group struct {
	Name        string
	Description template.HTML
	Operations  []operation
}

type operation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Public                    bool
	Parameters                []field
	BodyRequired              bool
	Takes                     []body
	Gives                     []answer
	Refusals                  []refusal
	Exchanges                 []exchange
}

type body struct {
	Media string
	Kind  template.HTML
}

type answer struct {
	Status      string
	Description template.HTML
	Headers     []field
	Bodies      []body
}

type refusal struct {
	Status string
	Types  []string
}

type exchange struct {
	Summary, Command string
	Status           int
	Answer           string
}

type object struct {
	Name        string
	Kind        template.HTML
	Description template.HTML
	Fields      []field
}

// field is an object's field, a parameter, or a header.
type field struct {
	Name, Where string
	Required    bool
	Kind        template.HTML
	Description template.HTML
}

type problem struct {
	Name, Title, Note string
	Status            int
	Example           string
}

type limit struct {
	Name  string
	Value string
}

func newView(doc *openapi3.T, s source, css template.CSS) (view, error) {
	w := words{doc}
	v := view{
		Title: doc.Info.Title, Version: doc.Info.Version, Style: css,
		Intro: w.text(doc.Info.Description),
	}
	b := builder{w, s}
	for _, tag := range doc.Tags {
		g := group{Name: tag.Name, Description: w.phrase(tag.Description)}
		for _, path := range s.Paths {
			item := doc.Paths.Value(path)
			for _, method := range []string{"POST", "PUT", "GET", "PATCH", "DELETE"} {
				op := item.GetOperation(method)
				if op != nil && op.Tags[len(op.Tags)-1] == tag.Name {
					g.Operations = append(g.Operations, b.operation(method, path, item, op))
				}
			}
		}
		if len(g.Operations) > 0 {
			v.Groups = append(v.Groups, g)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		v.Schemas = append(v.Schemas, b.object(name, doc.Components.Schemas[name].Value))
	}
	for _, name := range s.Info.Limits {
		value := doc.Info.Extensions["x-limits"].(map[string]any)[name]
		v.Limits = append(v.Limits, limit{name, fmt.Sprintf("%.0f", value)})
	}
	var err error
	v.Problems, err = b.problems()
	return v, err
}

type builder struct {
	words
	source source
}

func (b builder) operation(
	method, path string, item *openapi3.PathItem, op *openapi3.Operation,
) operation {
	o := operation{
		ID: op.OperationID, Method: method, Path: path, Summary: op.Summary,
		Description: b.text(op.Description), Public: op.Security != nil && len(*op.Security) == 0,
	}
	for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
		p := ref.Value
		o.Parameters = append(o.Parameters, field{
			p.Name, p.In, p.Required, b.kind(p.Schema), b.phrase(p.Description),
		})
	}
	if op.RequestBody != nil {
		o.BodyRequired = op.RequestBody.Value.Required
		o.Takes = b.bodies(op.RequestBody.Value.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
		response := op.Responses.Value(status)
		if status >= "4" {
			examples := response.Value.Content["application/problem+json"].Examples
			types := slices.Sorted(maps.Keys(examples))
			o.Refusals = append(o.Refusals, refusal{status, types})
			continue
		}
		a := answer{Status: status, Description: b.phrase(*response.Value.Description)}
		a.Bodies = b.bodies(response.Value.Content)
		for _, name := range slices.Sorted(maps.Keys(response.Value.Headers)) {
			h := response.Value.Headers[name].Value
			a.Headers = append(a.Headers, field{
				Name: name, Kind: b.kind(h.Schema), Description: b.phrase(h.Description),
			})
		}
		o.Gives = append(o.Gives, a)
	}
	o.Exchanges = b.exchanges(op.OperationID)
	return o
}

func (b builder) bodies(content openapi3.Content) (all []body) {
	for _, media := range slices.Sorted(maps.Keys(content)) {
		all = append(all, body{media, b.kind(content[media].Schema)})
	}
	return all
}

// exchanges returns an operation's examples, in the order in which the contract first refers to
// them.
func (b builder) exchanges(operationID string) (all []exchange) {
	examples := b.source.Components.Examples
	var names []string
	for name := range examples {
		x, ok := strings.CutSuffix(name, ".answer")
		if ok && strings.HasPrefix(x, operationID+".") {
			names = append(names, x)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.source.place(x), b.source.place(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		found := examples[name+".answer"]
		var sent *example
		if request, ok := examples[name+".request"]; ok {
			sent = &request
		}
		got := strings.TrimRight(found.read(), "\n")
		all = append(all, exchange{found.Summary, curl(found, sent), found.Status, got})
	}
	return all
}

func (b builder) object(name string, s *openapi3.Schema) object {
	o := object{Name: name, Description: b.text(s.Description)}
	if len(s.Properties) == 0 {
		o.Kind = b.kind(&openapi3.SchemaRef{Value: s})
	}
	names := slices.Collect(maps.Keys(s.Properties))
	slices.SortFunc(names, b.source.Components.Schemas[name].Properties.compare)
	for _, property := range names {
		ref := s.Properties[property]
		description := ref.Value.Description
		if ref.Ref != "" { // The referenced schema has the description.
			description = ""
		}
		o.Fields = append(o.Fields, field{
			Name: property, Required: slices.Contains(s.Required, property),
			Kind: b.kind(ref), Description: b.phrase(description),
		})
	}
	return o
}

func (b builder) problems() (all []problem, err error) {
	types := b.doc.Components.Schemas["ProblemType"].Value
	table, _ := types.Extensions["x-problems"].(map[string]any)
	for _, kind := range types.Enum {
		row, ok := table[fmt.Sprint(kind)].(map[string]any)
		status, isNumber := row["status"].(float64)
		if !ok || !isNumber {
			return nil, fmt.Errorf(
				"docs: openapi.yaml: x-problems: %v has no row, or its row has no status",
				kind,
			)
		}
		name := strings.TrimPrefix(fmt.Sprint(kind), problemPrefix)
		shown := b.source.Components.Examples["problem."+name]
		note, _ := row["note"].(string)
		all = append(all, problem{name, fmt.Sprint(row["title"]), note, int(status), shown.read()})
	}
	return all, nil
}
