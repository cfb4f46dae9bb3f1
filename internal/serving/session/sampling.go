package session

import (
	"fmt"
	"strconv"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/txl"
)

// CompletionTokensDefault is the default limit on a completion's sampled tokens.
const CompletionTokensDefault = 128

// Sampling is how a completion is sampled.
type Sampling struct {
	MaxTokens int
	txl.Sampling
}

// SamplingTable has the range and the default of every number of a completion. The checks of
// requests, the flags of commands, the contract and docs/settings.md are made from its rows.
var SamplingTable = setting.Table[Sampling]{
	{
		Name: "max_tokens", Field: func(s *Sampling) any { return &s.MaxTokens },
		Min: 1, Max: 65536, Limit: "completion_tokens_max", Unit: "tokens",
		Default: strconv.Itoa(CompletionTokensDefault),
		Help:    "the most tokens that are sampled",
		Note: "A text ends with a whole character: what the last tokens begin of another is left off, " +
			"and not committed.",
	},
	{
		Name: "temperature", Field: func(s *Sampling) any { return &s.Temperature },
		Min: 0, Max: 10, Limit: "temperature_max", Default: "1",
		Help: "the number that the logits are divided by; at 0 the likeliest token is always taken",
	},
	{
		Name: "top_k", Field: func(s *Sampling) any { return &s.TopK },
		Min: 0, Max: 1 << 20, Limit: "top_k_max", Unit: "tokens", Default: "0",
		Help: "how many of the likeliest tokens are sampled among; 0 is all of them",
	},
	{
		Name: "min_p", Field: func(s *Sampling) any { return &s.MinP },
		Min: 0, Max: 1, Default: "0",
		Help: "the least probability of a token that is sampled, as a part of the likeliest one's; " +
			"0 is any",
	},
	{
		Name: "top_p", Field: func(s *Sampling) any { return &s.TopP },
		Min: 0, Max: 1, Above: true, Default: "1",
		Help: "the probability that the likeliest tokens, among which one is sampled, have together",
	},
	{
		Name: "dry", Field: func(s *Sampling) any { return &s.Dry },
		Min: 0, Max: txl.DryMax, Limit: "dry_max", Default: fmt.Sprint(txl.DryDefault),
		Help: "how strongly loops are avoided: a byte that followed the last `m` >= 12 bytes " +
			"earlier " +
			"in the completion has a logit that is `dry` * 1.3^(`m`-12) smaller; 0 is not at all",
		Note: "The text before the completion does not count. A token of a model of words counts as " +
			"5 bytes.",
	},
}

// wordSize is the assumed size of a word token in a loop, in bytes: a word and the space before it.
const wordSize = 5
