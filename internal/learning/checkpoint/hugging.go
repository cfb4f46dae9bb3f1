package checkpoint

import (
	"cmp"
	"encoding/json"
	"io"
	"strconv"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

// huggingConfig is what Hugging Face's config.json says of a Transformer-XL beside the shapes of
// its tensors. The file has many fields more, which are of no use here.
type huggingConfig struct {
	ModelType  string  `json:"model_type"`
	MemLen     *int    `json:"mem_len"`
	TgtLen     *int    `json:"tgt_len"`
	ClampLen   *int    `json:"clamp_len"`
	SameLength *bool   `json:"same_length"`
	PreLNorm   *bool   `json:"pre_lnorm"`
	AttnType   int     `json:"attn_type"`
	Cutoffs    []int   `json:"cutoffs"`
	Eps        float64 `json:"layer_norm_epsilon"`
	TieWords   *bool   `json:"tie_word_embeddings"`
	TieWeight  *bool   `json:"tie_weight"` // the same in files of old versions
}

// readHuggingConfig reads a config.json. hugging says whether the file names the library's model.
func readHuggingConfig(path string) (s Settings, hugging bool, err error) {
	f, err := reload.Open(path)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return s, false, err
	}
	if len(text) > maxConfigBytes {
		err := tooLarge("file", "more than "+strconv.Itoa(maxConfigBytes)+" bytes", "at most that")
		return s, false, inFile(err, path)
	}
	var c huggingConfig
	if err := json.Unmarshal(text, &c); err != nil {
		err = malformed("JSON", err.Error(), "an object as Hugging Face's library writes it")
		return s, false, inFile(err, path)
	}
	s, err = c.settings()
	return s, c.ModelType == huggingModelType, inFile(err, path)
}

func (c huggingConfig) settings() (Settings, error) {
	if c.ModelType != "" && c.ModelType != huggingModelType {
		return Settings{}, unsupported("model_type", quote(c.ModelType), strconv.Quote(huggingModelType))
	}
	if c.AttnType != 0 {
		return Settings{}, unsupported("attn_type", strconv.Itoa(c.AttnType),
			"0, relative positions as in the paper")
	}
	if c.Eps != 0 {
		if err := checkEps(c.Eps); err != nil {
			return Settings{}, err
		}
	}
	s := Settings{MemLen: c.MemLen, SegLen: c.TgtLen, ClampLen: c.ClampLen, SameLength: c.SameLength,
		PreLNorm: c.PreLNorm, Cutoffs: c.Cutoffs}
	if tied := cmp.Or(c.TieWords, c.TieWeight); tied != nil {
		s.UntieSoftmax = new(!*tied)
	}
	return s, nil
}
