package codec

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Fill is a request of an editor for a text between a prefix and a suffix.
type Fill struct {
	Model             *string // nil selects the default model
	Prefix, Suffix    string
	MaxTokens         *int
	Temperature, TopP *float64
	Seed              *uint64
	Stop              []*api.EditorStop
	Stream            bool
	Echo              bool // the answer begins with the prefix
}

// Filled is the text that answers a Fill.
type Filled struct {
	ID      string
	Created time.Time
	Model   session.ModelInfo
	Text    string
	Finish  api.FinishReason
	Usage   api.OpenAIUsage
}

// Request converts f to a request for model m.
func (f Fill) Request(m session.ModelInfo) session.BatchRequest {
	prefix := []byte(f.Prefix[max(0, len(f.Prefix)-limits.OpenAIPromptTokensMax):])
	r := session.BatchRequest{
		Model: m.ID, Prompts: [][]byte{prefix}, Suffix: []byte(f.Suffix), N: 1,
		MaxTokens: limits.FillTokensMax, Temperature: new(float64), TopP: f.TopP,
	}
	if f.MaxTokens != nil && *f.MaxTokens >= 0 {
		r.MaxTokens = min(r.MaxTokens, *f.MaxTokens)
	}
	if f.Temperature != nil {
		r.Temperature = f.Temperature
	}
	if f.Seed != nil {
		r.Seed = new(*f.Seed & session.SeedMax)
	}
	for _, stop := range f.Stop {
		r.Stop = append(r.Stop, editorStops(stop)...)
	}
	r.Stop = r.Stop[:min(len(r.Stop), limits.StopStringsMax)]
	return r
}

func editorStops(stop *api.EditorStop) (all []string) {
	if stop == nil {
		return nil
	}
	given, err := stop.AsEditorStop1()
	if err != nil {
		one, _ := stop.AsEditorStop0()
		given = []string{one}
	}
	for _, s := range given {
		if n := utf8.RuneCountInString(s); n > 0 && n <= session.StopCharsMax {
			all = append(all, s)
		}
	}
	return all
}

// seedOf returns nil, for a random seed, if seed is nil or negative.
func seedOf(seed *int64) *uint64 {
	if seed == nil || *seed < 0 {
		return nil
	}
	return new(uint64(*seed))
}

// markers are the texts before the prefix, before the suffix, and at the end of a
// fill-in-the-middle prompt. Each row is for some models: StarCoder; Qwen and CodeGemma; Code
// Llama; DeepSeek.
var markers = [][3]string{
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
	{"<PRE> ", " <SUF>", " <MID>"},
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
}

// unmarked splits a prompt at its markers into prefix and suffix. It returns a prompt without
// markers as the prefix, and marked is then false.
func unmarked(prompt string) (prefix, suffix string, marked bool) {
	for _, m := range markers {
		text, ends := strings.CutSuffix(prompt, m[2])
		before, text, begins := strings.Cut(text, m[0])
		prefix, suffix, parted := strings.Cut(text, m[1])
		if ends && begins && parted {
			return strings.TrimPrefix(before, "<s>") + prefix, suffix, true
		}
	}
	return prompt, "", false
}

// DecodeFIM decodes a request in Mistral's form.
func DecodeFIM(r api.FIMRequest) Fill {
	return Fill{
		Model: r.Model, Prefix: r.Prompt, Suffix: Value(r.Suffix), MaxTokens: r.MaxTokens,
		Temperature: r.Temperature, TopP: r.TopP, Seed: r.RandomSeed,
		Stop: []*api.EditorStop{r.Stop}, Stream: Value(r.Stream),
	}
}

// DecodeTGI decodes a request in the form of text-generation-inference.
func DecodeTGI(r api.TGIRequest) Fill {
	p := Value(r.Parameters)
	f := Fill{
		MaxTokens: p.MaxNewTokens, Temperature: p.Temperature, TopP: p.TopP, Seed: p.Seed,
		Stop: []*api.EditorStop{p.Stop, p.StopTokens}, Echo: Value(p.ReturnFullText),
	}
	f.Prefix, f.Suffix, _ = unmarked(r.Inputs)
	if p.DoSample != nil && !*p.DoSample {
		f.Temperature = nil
	}
	return f
}

// DecodeOllama decodes a request in Ollama's form.
func DecodeOllama(r api.OllamaRequest) Fill {
	o := Value(r.Options)
	f := Fill{
		Model: r.Model, Prefix: r.Prompt, Suffix: Value(r.Suffix), MaxTokens: o.NumPredict,
		Temperature: o.Temperature, TopP: o.TopP, Seed: seedOf(o.Seed),
		Stop: []*api.EditorStop{o.Stop},
	}
	if f.Suffix == "" {
		f.Prefix, f.Suffix, _ = unmarked(r.Prompt)
	}
	return f
}

// DecodeLlama decodes a request in the form of llama.cpp.
func DecodeLlama(r api.LlamaRequest) Fill {
	f := Fill{
		MaxTokens: r.NPredict, Temperature: r.Temperature, TopP: r.TopP, Seed: seedOf(r.Seed),
		Stop: []*api.EditorStop{r.Stop}, Stream: Value(r.Stream),
	}
	prompt, suffix := Value(r.Prompt), Value(r.InputSuffix)
	if suffix == "" {
		prompt, suffix, _ = unmarked(prompt)
	}
	for _, extra := range r.InputExtra {
		f.Prefix += Value(extra.Text)
	}
	f.Prefix += Value(r.InputPrefix) + prompt
	f.Suffix = suffix
	return f
}

// DecodeTabby decodes a request in Tabby's form.
func DecodeTabby(r api.TabbyRequest) Fill {
	f := Fill{Temperature: r.Temperature, Seed: r.Seed, MaxTokens: new(limits.FillTokensMax / 2)}
	if r.Segments != nil {
		f.Prefix, f.Suffix = r.Segments.Prefix, Value(r.Segments.Suffix)
		return f
	}
	f.Prefix, f.Suffix, _ = unmarked(Value(Value(r.DebugOptions).RawPrompt))
	return f
}

// FIM encodes the text in Mistral's form.
func (f Filled) FIM() api.FIMCompletion {
	return api.FIMCompletion{
		ID: f.ID, Object: api.ObjectFIM, Created: f.Created.Unix(), Model: f.Model.ID,
		Usage:   &f.Usage,
		Choices: []api.FIMChoice{{Message: f.message(), FinishReason: f.Finish}},
	}
}

// FIMEvent encodes the text as the only event of a stream in Mistral's form.
func (f Filled) FIMEvent() api.FIMEvent {
	return api.FIMEvent{
		ID: f.ID, Object: api.ObjectFIMChunk, Created: f.Created.Unix(), Model: f.Model.ID,
		Usage: &f.Usage, Choices: []api.FIMDelta{{Delta: f.message(), FinishReason: f.Finish}},
	}
}

func (f Filled) message() api.FIMMessage {
	return api.FIMMessage{Role: api.RoleAssistant, Content: f.Text}
}

// Ollama encodes the text in Ollama's form.
func (f Filled) Ollama() api.OllamaAnswer {
	return api.OllamaAnswer{
		Model: f.Model.ID, CreatedAt: f.Created.UTC(), Response: f.Text, Done: true,
		DoneReason: f.Finish,
	}
}

// Llama encodes the text in the form of llama.cpp.
func (f Filled) Llama() api.LlamaAnswer {
	return api.LlamaAnswer{Content: f.Text, Stop: true, Model: f.Model.ID}
}

// Tabby encodes the text in Tabby's form.
func (f Filled) Tabby() api.TabbyAnswer {
	return api.TabbyAnswer{ID: f.ID, Choices: []api.TabbyChoice{{Text: f.Text}}}
}
