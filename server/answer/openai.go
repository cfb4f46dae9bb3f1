package answer

import "context"

type openAIKey struct{}

// WithOpenAIForm returns a context for a request whose problems also appear in OpenAI's form.
func WithOpenAIForm(ctx context.Context) context.Context {
	return context.WithValue(ctx, openAIKey{}, true)
}

// inOpenAIForm reports whether ctx comes from WithOpenAIForm.
func inOpenAIForm(ctx context.Context) bool { return ctx.Value(openAIKey{}) != nil }
