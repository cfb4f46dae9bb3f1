package codec

import (
	"strconv"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeOpenAISuggest decodes a completion request in OpenAI's form that asks for suggestions. It
// refuses options that suggestions cannot honor and ignores sampling options.
func DecodeOpenAISuggest(
	r api.OpenAICompletionRequest, b session.BatchRequest,
) (session.SuggestRequest, error) {
	s := Value(r.Suggest)
	request := session.SuggestRequest{
		N: b.N, Unit: string(Value(s.Unit)), Least: Value(s.MinProbability),
		Within: time.Duration(Value(s.WithinMs)) * time.Millisecond,
	}
	refuse := func(field, found, expected string) (session.SuggestRequest, error) {
		expected += " with suggest"
		return request, problem.Field(api.ProblemInvalidField, field, found, expected)
	}
	switch {
	case len(b.Prompts) > 1:
		return refuse("prompt", strconv.Itoa(len(b.Prompts))+" prompts", "1")
	case b.Commits():
		return refuse("commit", strconv.Quote(b.Commit), session.CommitNone)
	case len(b.Suffix) > 0:
		return refuse("suffix", strconv.Itoa(len(b.Suffix))+" bytes", "null")
	case b.Echo:
		return refuse("echo", "true", "false")
	case b.LogProbs:
		return refuse("logprobs", strconv.Itoa(b.Top), "null")
	}
	return request, nil
}

// Suggested returns an answer whose choices are the suggestions. Without suggestions the answer has
// one choice with empty text, because clients read the first choice.
func (a *OpenAIAnswer) Suggested(s session.Suggested) api.OpenAICompletion {
	stop, choices := api.FinishStop, []api.OpenAIChoice{}
	for i, c := range s.Candidates {
		a.sampled += int64(len(c.Text))
		choices = append(choices, api.OpenAIChoice{
			Text: c.Text, Index: i, FinishReason: &stop, Probability: &c.Probability,
		})
	}
	if len(choices) == 0 {
		choices = append(choices, api.OpenAIChoice{FinishReason: &stop})
	}
	whole := a.UsageEvent()
	whole.Choices = choices
	return whole
}

// SuggestionEvents returns the events of a stream of suggestions: one event per choice and, if
// usage is true, a last event with the token usage.
func SuggestionEvents(whole api.OpenAICompletion, usage bool) (events []any) {
	last := whole
	last.Choices, whole.Usage = []api.OpenAIChoice{}, nil
	for _, choice := range whole.Choices {
		event := whole
		event.Choices = []api.OpenAIChoice{choice}
		if usage {
			events = append(events, WithoutUsage{OpenAICompletion: event})
		} else {
			events = append(events, event)
		}
	}
	if usage {
		events = append(events, last)
	}
	return events
}
