// Package codec converts between the types of package api and the types of package session. The
// decoding functions expect input that is valid under the contract, api/openapi.yaml. They check
// only the rules that OpenAPI cannot express, and return violations as problem documents.
package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// DecodeCreate decodes the body of a request for a new session; nil means no body.
func DecodeCreate(body *api.SessionRequest) (session.CreateRequest, error) {
	r := Value(body)
	request := session.CreateRequest{Model: Value(r.Model), Seed: r.Seed,
		ShadowOf: Value(r.ShadowOf)}
	if r.Settings != nil {
		request.Settings = decodeSettings(*r.Settings)
	}
	request.TTL, request.History = seconds(r.TTLSeconds), string(Value(r.History))
	var err error
	request.Labels, err = decodeLabels(r.Labels)
	return request, err
}

// DecodeFork decodes the body of a request for a fork; nil means no body.
func DecodeFork(body *api.ForkRequest) (session.ForkRequest, error) {
	r := Value(body)
	labels, err := decodeLabels(r.Labels)
	return session.ForkRequest{
		AtOffset: r.AtOffset,
		Name:     Value(r.Name),
		Labels:   labels,
		TTL:      seconds(r.TTLSeconds),
		History:  string(Value(r.History)),
	}, err
}

func seconds(n *int64) time.Duration { return time.Duration(Value(n)) * time.Second }

// decodeLabels returns the labels. It checks the lengths of label names, because OpenAPI 3.0 cannot
// express this rule.
func decodeLabels(labels *api.Labels) (map[string]string, error) {
	return Value(labels), checkLabelNames(maps.Keys(Value(labels)))
}

func checkLabelNames(names iter.Seq[string]) error {
	for key := range names {
		if n := utf8.RuneCountInString(key); n < 1 || n > limits.LabelKeyCharsMax {
			return problem.Field(api.ProblemInvalidField,
				problem.FieldPath([]string{"labels", key}),
				fmt.Sprintf("a name of %d characters", n),
				fmt.Sprintf("1 to %d characters", limits.LabelKeyCharsMax))
		}
	}
	return nil
}

// DecodePatch decodes a request that changes a session: a JSON merge patch.
func DecodePatch(r api.SessionPatch) (request session.PatchRequest, err error) {
	if isNull(r.Labels) {
		request.Unlabel = true
	} else if r.Labels != nil {
		if err := json.Unmarshal(r.Labels, &request.Labels); err != nil {
			return request, problem.OfJSON(err)
		}
	}
	if request.Detach = isNull(r.ShadowOf); r.ShadowOf != nil && !request.Detach {
		return request, problem.Field(api.ProblemInvalidField, "shadow_of",
			problem.Shortened(string(r.ShadowOf)), "null")
	}
	if r.Name != nil {
		request.Name = new(string) // JSON null leaves the string empty.
		if err := json.Unmarshal(r.Name, request.Name); err != nil {
			return request, problem.OfJSON(err)
		}
	}
	if r.TTLSeconds != nil {
		var n int64 // JSON null leaves n at 0.
		if err := json.Unmarshal(r.TTLSeconds, &n); err != nil {
			return request, problem.Field(api.ProblemInvalidField, "ttl_seconds",
				problem.Shortened(string(r.TTLSeconds)), "an integer without an exponent")
		}
		request.TTL = new(seconds(&n))
	}
	return request, checkLabelNames(maps.Keys(request.Labels))
}

func isNull(field json.RawMessage) bool { return string(field) == "null" }

// DecodeName checks a session name in a request parameter, because the contract expresses only some
// of the rules for names.
func DecodeName(parameter, name string) (string, error) {
	if wrong, ok := errors.AsType[*session.FieldError](session.CheckName(name)); ok {
		return "", problem.Field(api.ProblemInvalidParameter, parameter, problem.Quoted(name),
			wrong.Want)
	}
	return name, nil
}

// DecodeWait returns how long a request may wait for a busy session and for the recovery of a
// session's state. Without the parameter, the time is 0.
func DecodeWait(wait *api.Wait) (time.Duration, error) {
	if wait == nil {
		return 0, nil
	}
	d, err := time.ParseDuration(*wait)
	if err != nil || d > session.WaitMax {
		return 0, problem.Field(api.ProblemInvalidParameter, "wait", problem.Quoted(*wait),
			fmt.Sprintf("a duration of at most %ds, such as 30s", limits.WaitSecondsMax))
	}
	return d, nil
}

func ofLines(u *api.Unit) bool {
	unit := Value(u)
	return unit == api.UnitLine || unit == api.UnitRecord || unit == api.UnitIncident
}

// DecodeScoreOptions decodes the parameters of a score request.
func DecodeScoreOptions(p api.ScoreParams) (session.ScoreOptions, error) {
	wait, err := DecodeWait(p.Wait)
	if err != nil {
		return session.ScoreOptions{}, err
	}
	if err := session.CheckRecordStart(Value(p.RecordStart)); err != nil {
		return session.ScoreOptions{}, problem.Field(api.ProblemInvalidParameter, "record_start",
			problem.Quoted(*p.RecordStart), err.Error())
	}
	trouble := ""
	if p.TroubleWords != nil {
		if trouble, err = session.TroubleWords(*p.TroubleWords); err != nil {
			return session.ScoreOptions{}, problem.Field(api.ProblemInvalidParameter,
				"trouble_words",
				problem.Quoted(*p.TroubleWords), "words of trouble: "+err.Error())
		}
	}
	return session.ScoreOptions{
		TroubleWords: trouble,
		Records:      Value(p.Unit) == api.UnitRecord, RecordStart: p.RecordStart,
		Offset: p.Offset, LogProbs: Value(p.Logprobs), Top: Value(p.TopLogprobs),
		Learn: string(Value(p.Learn)),
		Lines: ofLines(p.Unit), Incidents: Value(p.Unit) == api.UnitIncident,
		Text:      valueOr(p.Text, true),
		TokenBits: Value(p.Tokens), Threshold: valueOr(p.Threshold, limits.ThresholdDefault),
		Wait: wait,
	}, nil
}

// Listing is a decoded request for a page of sessions.
type Listing struct {
	After  string // id of the last session of the previous page; "": none
	Limit  int
	Labels []session.Label
}

// DecodeListing decodes the parameters of a listing.
func DecodeListing(p api.ListSessionsParams) Listing {
	l := Listing{After: Value(p.After), Limit: valueOr(p.Limit, limits.ListLimitDefault)}
	if p.Label != nil {
		label := session.Label{}
		name, value, whole := strings.Cut(*p.Label, ":")
		if label.Name = name; whole {
			label.Value = &value
		}
		l.Labels = append(l.Labels, label)
	}
	return l
}

// DecodeCompletion decodes a request for a completion.
func DecodeCompletion(
	r api.CompletionRequest, p api.CompleteParams,
) (session.CompleteRequest, error) {
	wait, err := DecodeWait(p.Wait)
	if err != nil {
		return session.CompleteRequest{}, err
	}
	request := session.CompleteRequest{
		Prompt:      r.PromptBase64,
		MaxTokens:   valueOr(r.MaxTokens, limits.CompletionTokensDefault),
		Temperature: r.Temperature,
		TopP:        r.TopP,
		TopK:        Value(r.TopK),
		MinP:        Value(r.MinP),
		Dry:         r.Dry,
		Seed:        r.Seed,
		Commit:      string(Value(r.Commit)),
		From:        string(Value(r.From)),
		LogProbs:    Value(r.Logprobs),
		Top:         Value(r.TopLogprobs),
		Wait:        wait,
	}
	if r.Prompt != nil {
		if r.PromptBase64 != nil {
			return request, problem.Field(api.ProblemInvalidField, "prompt_base64",
				"prompt and prompt_base64", "only one of prompt and prompt_base64")
		}
		request.Prompt = []byte(*r.Prompt)
	}
	if r.Stop != nil {
		request.Stop = stopStrings(r.Stop.AsStopString, r.Stop.AsCompletionRequestStop1)
	}
	return request, nil
}

// stopStrings decodes a string or a list of strings. It drops empty strings, which some clients
// send for no stop string. The errors are ignored, because validation has accepted the value.
func stopStrings(one func() (string, error), list func() ([]string, error)) []string {
	stops, _ := list()
	if stop, err := one(); err == nil {
		stops = []string{stop}
	}
	return slices.DeleteFunc(stops, func(stop string) bool { return stop == "" })
}

// Value returns *p, or the zero value if p is nil.
func Value[T any](p *T) T {
	var zero T
	return valueOr(p, zero)
}

func valueOr[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// orNil returns a pointer to v, or nil for the zero value, so that JSON omits the field.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
