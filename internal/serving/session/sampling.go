package session

import (
	"fmt"
	"strconv"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/txl"
)

// CompletionTokensDefault is the default of max_tokens in a completion.
const CompletionTokensDefault = 128

// Sampling contains the settings for sampling the tokens of a completion.
type Sampling struct {
	MaxTokens int
	txl.Sampling
}

// SamplingTable contains the range and the default of every sampling setting. The checks of
// requests, the commands' flags, the API contract and docs/settings.md are derived from it.
var SamplingTable = setting.Table[Sampling]{
	{
		Name: "max_tokens", Field: func(s *Sampling) any { return &s.MaxTokens },
		Min: 1, Max: 65536, Limit: "completion_tokens_max", Unit: "tokens",
		Default: strconv.Itoa(CompletionTokensDefault),
		Help:    "maximum number of sampled tokens",
		Note: "The text ends with a whole character: an incomplete character at the end is " +
			"dropped and not committed.",
	},
	{
		Name: "temperature", Field: func(s *Sampling) any { return &s.Temperature },
		Min: 0, Max: 10, Limit: "temperature_max", Default: "1",
		Help: "divisor of the logits; 0 always takes the likeliest token",
	},
	{
		Name: "top_k", Field: func(s *Sampling) any { return &s.TopK },
		Min: 0, Max: 1 << 20, Limit: "top_k_max", Unit: "tokens", Default: "0",
		Help: "number of likeliest tokens from which a token is sampled; 0 means all tokens",
	},
	{
		Name: "min_p", Field: func(s *Sampling) any { return &s.MinP },
		Min: 0, Max: 1, Default: "0",
		Help: "minimum probability of a sampled token, relative to the likeliest token",
	},
	{
		Name: "top_p", Field: func(s *Sampling) any { return &s.TopP },
		Min: 0, Max: 1, Above: true, Default: "1",
		Help: "total probability of the likeliest tokens, from which a token is sampled",
	},
	{
		Name: "dry", Field: func(s *Sampling) any { return &s.Dry },
		Min: 0, Max: txl.DryMax, Limit: "dry_max", Default: fmt.Sprint(txl.DryDefault),
		Help: "strength of loop avoidance: if the last `m` >= 12 bytes occurred before in the " +
			"completion, the logit of the byte that followed them is reduced by " +
			"`dry` * 1.3^(`m`-12); 0 means no avoidance",
		Note: "The text before the completion does not count. A token of a model of words counts " +
			"as 5 bytes.",
	},
}

// wordSize is the assumed size in bytes of a word and its space, for the detection of loops.
const wordSize = 5
