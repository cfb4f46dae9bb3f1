package session

import (
	"cmp"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/txl"
)

func checkCompletion(r CompleteRequest) error {
	if n := len(r.Prompt); n > PromptBytesMax {
		return &FieldError{"prompt", setting.Count(n, "byte"), fmt.Sprintf("at most %d",
			PromptBytesMax)}
	}
	sampling := r.sampling()
	if err := SamplingTable.Check(&sampling); err != nil {
		return fieldError("", err)
	}
	if err := cmp.Or(checkSeed(r.Seed), checkStops(r.Stop)); err != nil {
		return err
	}
	switch {
	case r.Top < 0 || r.Top > CandidatesMax:
		return &FieldError{"top_logprobs", strconv.Itoa(r.Top), fmt.Sprintf("0 to %d",
			CandidatesMax)}
	case r.Top > 0 && !r.LogProbs:
		return &FieldError{"top_logprobs", strconv.Itoa(r.Top), "0 without logprobs"}
	}
	return checkCommit(r.Commit)
}

func checkCommit(commit string) error {
	switch commit {
	case "", CommitNone, CommitPrompt, CommitAll:
		return nil
	}
	return &FieldError{"commit", strconv.Quote(commit),
		CommitNone + ", " + CommitPrompt + " or " + CommitAll}
}

func checkFrom(s *session, r CompleteRequest) error {
	switch r.From {
	case "", FromAdapted:
		return nil
	case FromStatic:
		if s.Settings.HasStatic() {
			return nil
		}
		return &FieldError{"from", FromStatic, FromAdapted + ": the session's method, " +
			s.Settings.Method + ", has no settings.baseline"}
	}
	return &FieldError{"from", strconv.Quote(r.From), FromAdapted + " or " + FromStatic}
}

func checkStops(stops []string) error {
	if n := len(stops); n > StopStringsMax {
		return &FieldError{"stop", setting.Count(n, "string"), fmt.Sprintf("at most %d",
			StopStringsMax)}
	}
	for i, stop := range stops {
		if n := utf8.RuneCountInString(stop); n < 1 || n > StopCharsMax {
			return &FieldError{
				fmt.Sprintf("stop[%d]", i), setting.Count(n, "character"), fmt.Sprintf("1 to %d",
					StopCharsMax),
			}
		}
	}
	return nil
}

func (r CompleteRequest) sampling() Sampling {
	s := samplingOf(r.Temperature, r.TopP, r.Dry)
	s.MaxTokens, s.TopK, s.MinP = r.MaxTokens, r.TopK, r.MinP
	return s
}

func (r BatchRequest) sampling() Sampling {
	s := samplingOf(r.Temperature, r.TopP, r.Dry)
	s.MaxTokens, s.TopK, s.MinP = r.MaxTokens, r.TopK, r.MinP
	return s
}

// samplingOf returns sampling settings; nil parameters get defaults. By default, text is sampled
// from the model's distribution, with a penalty on loops.
func samplingOf(temperature, topP, dry *float64) Sampling {
	s := Sampling{Sampling: txl.Sampling{Temperature: 1, TopP: 1, Dry: txl.DryDefault}}
	if temperature != nil {
		s.Temperature = *temperature
	}
	if topP != nil {
		s.TopP = *topP
	}
	if dry != nil {
		s.Dry = *dry
	}
	return s
}
