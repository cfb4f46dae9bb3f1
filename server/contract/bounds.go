package contract

import (
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/server/limits"
)

// boundsOf returns the bounds of an operation's JSON body. If the schema has an array with a larger
// limit than usual, such as a list of tokens, that limit replaces Members. It is also added to
// Tokens.
func boundsOf(op *openapi3.Operation) strictjson.Bounds {
	bounds := strictjson.Bounds{
		Depth:   limits.JSONDepthMax,
		Members: limits.JSONMembersMax,
		Tokens:  limits.JSONTokensMax,
		Bytes:   limits.JSONNameBytesMax,
	}
	if op.RequestBody == nil || op.RequestBody.Value.Content[MediaJSON] == nil {
		return bounds
	}
	body := op.RequestBody.Value.Content[MediaJSON].Schema.Value
	if most := membersOf(body); most > bounds.Members {
		bounds.Members = most
		bounds.Tokens += most
	}
	return bounds
}

// membersOf returns the size of the largest array that a schema allows, or 0 without arrays.
func membersOf(s *openapi3.Schema) (most int) {
	if s.MaxItems != nil {
		most = max(int(*s.MaxItems), membersOf(s.Items.Value))
	}
	for _, one := range s.OneOf {
		most = max(most, membersOf(one.Value))
	}
	for _, property := range s.Properties {
		most = max(most, membersOf(property.Value))
	}
	return most
}
