package session

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/txl"
)

// checkCompletion compares a request with its limits.
func checkCompletion(r CompleteRequest) error {
	if n := len(r.Prompt); n > PromptBytesMax {
		return &FieldError{"prompt", count(n, "byte"), fmt.Sprintf("at most %d", PromptBytesMax)}
	}
	if err := checkRange("max_tokens", r.MaxTokens, 1, CompletionTokensMax); err != nil {
		return err
	}
	if r.Temperature != nil {
		if err := checkRange("temperature", *r.Temperature, 0, TemperatureMax); err != nil {
			return err
		}
	}
	if r.TopP != nil && !(*r.TopP > 0 && *r.TopP <= 1) {
		return &FieldError{"top_p", fmt.Sprint(*r.TopP), "above 0, at most 1"}
	}
	if err := checkRange("top_k", r.TopK, 0, TopKMax); err != nil {
		return err
	}
	if err := checkSeed(r.Seed); err != nil {
		return err
	}
	if err := checkStops(r.Stop); err != nil {
		return err
	}
	switch r.Commit {
	case "", CommitNone, CommitPrompt, CommitAll:
		return nil
	}
	return &FieldError{"commit", strconv.Quote(r.Commit), CommitNone + ", " + CommitPrompt + " or " + CommitAll}
}

func checkStops(stops []string) error {
	if n := len(stops); n > StopStringsMax {
		return &FieldError{"stop", count(n, "string"), fmt.Sprintf("at most %d", StopStringsMax)}
	}
	for i, stop := range stops {
		if n := utf8.RuneCountInString(stop); n < 1 || n > StopCharsMax {
			return &FieldError{fmt.Sprintf("stop[%d]", i), count(n, "character"), fmt.Sprintf("1 to %d", StopCharsMax)}
		}
	}
	return nil
}

// sampling is how the request samples; by default from the model's own distribution.
func (r CompleteRequest) sampling() txl.Sampling {
	p := txl.Sampling{Temperature: 1, TopK: r.TopK, TopP: 1, Seed: seedOr(r.Seed)}
	if r.Temperature != nil {
		p.Temperature = *r.Temperature
	}
	if r.TopP != nil {
		p.TopP = *r.TopP
	}
	return p
}
