package answer

import "context"

type openAIKey struct{}

// WithOpenAIForm gives the context of a request whose problems are told in OpenAI's form, too.
func WithOpenAIForm(ctx context.Context) context.Context {
	return context.WithValue(ctx, openAIKey{}, true)
}

// inOpenAIForm reports whether the request that a context belongs to is one of WithOpenAIForm.
func inOpenAIForm(ctx context.Context) bool { return ctx.Value(openAIKey{}) != nil }
