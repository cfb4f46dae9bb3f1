// Package codec maps the types of package api to those of package session, and back. The decoding
// functions read what validation against the contract has let through; their errors are problems
// about what the contract cannot say.
package codec

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeCreate reads the body of a request for a new session.
func DecodeCreate(r api.SessionRequest) (session.CreateRequest, error) {
	request := session.CreateRequest{Seed: r.Seed}
	if r.Settings != nil {
		request.Settings = decodeSettings(*r.Settings)
	}
	request.TTL, request.History = seconds(r.TTLSeconds), string(value(r.History))
	var err error
	request.Labels, err = decodeLabels(r.Labels)
	return request, err
}

// DecodeFork reads the body of a request for a fork.
func DecodeFork(r api.ForkRequest) (session.ForkRequest, error) {
	labels, err := decodeLabels(r.Labels)
	return session.ForkRequest{
		AtOffset: r.AtOffset,
		Labels:   labels,
		TTL:      seconds(r.TTLSeconds),
		History:  string(value(r.History)),
	}, err
}

func seconds(n *int64) time.Duration { return time.Duration(value(n)) * time.Second }

// decodeLabels checks the length of the names of labels, which OpenAPI 3.0 cannot say.
func decodeLabels(labels *api.Labels) (map[string]string, error) {
	for key := range value(labels) {
		if n := utf8.RuneCountInString(key); n < 1 || n > limits.LabelKeyCharsMax {
			return nil, problem.Field(api.ProblemInvalidField, problem.FieldPath([]string{"labels", key}),
				fmt.Sprintf("a name of %d characters", n),
				fmt.Sprintf("1 to %d characters", limits.LabelKeyCharsMax))
		}
	}
	return value(labels), nil
}

// DecodeScoreOptions reads the parameters of a score request.
func DecodeScoreOptions(p api.ScoreParams) session.ScoreOptions {
	options := session.ScoreOptions{
		Offset: p.Offset, LogProbs: value(p.Logprobs), Learn: string(value(p.Learn)),
		Lines: value(p.Unit) == api.UnitLine, Text: p.Text == nil || *p.Text,
		TokenBits: value(p.Tokens), Threshold: limits.ThresholdDefault,
	}
	if p.Threshold != nil {
		options.Threshold = *p.Threshold
	}
	return options
}

// DecodeListing reads the parameters of a listing: the id after which it goes on, and how many
// sessions it gives at most.
func DecodeListing(p api.ListSessionsParams) (after string, limit int) {
	if p.Limit == nil {
		return value(p.After), limits.ListLimitDefault
	}
	return value(p.After), *p.Limit
}

// DecodeCompletion reads the body of a request for a completion.
func DecodeCompletion(r api.CompletionRequest) (session.CompleteRequest, error) {
	request := session.CompleteRequest{
		Prompt:      r.PromptBase64,
		MaxTokens:   limits.CompletionTokensDefault,
		Temperature: r.Temperature,
		TopP:        r.TopP,
		TopK:        value(r.TopK),
		Seed:        r.Seed,
		Commit:      string(value(r.Commit)),
		LogProbs:    value(r.Logprobs),
	}
	if r.MaxTokens != nil {
		request.MaxTokens = *r.MaxTokens
	}
	if r.Prompt != nil {
		if r.PromptBase64 != nil {
			return request, problem.Field(api.ProblemInvalidField, "prompt_base64",
				"prompt beside it", "one of the two")
		}
		request.Prompt = []byte(*r.Prompt)
	}
	if r.Stop != nil {
		request.Stop = stopStrings(r.Stop.AsStopString, r.Stop.AsCompletionRequestStop1)
	}
	return request, nil
}

// stopStrings reads one string or a list of strings. Validation has seen that it is one of the two.
func stopStrings(one func() (string, error), list func() ([]string, error)) []string {
	if stop, err := one(); err == nil {
		return []string{stop}
	}
	stops, _ := list()
	return stops
}

// value is what p points to, or the zero value if p is nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
