package answer

import "context"

type openAIKey struct{}

// WithOpenAIForm returns a context for a request whose errors also have the form of OpenAI's API.
func WithOpenAIForm(ctx context.Context) context.Context {
	return context.WithValue(ctx, openAIKey{}, true)
}

func inOpenAIForm(ctx context.Context) bool { return ctx.Value(openAIKey{}) != nil }
