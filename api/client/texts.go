package client

import (
	"context"
	"encoding/json"
	"iter"
)

// TextsOptions say how texts are scored. The zero value asks for the default model.
type TextsOptions struct {
	Model    string // id or name; "": the default
	Settings *SettingsRequest
	Seed     *uint64 // of each text's masks; nil: 0
}

// ScoreTexts scores texts, each by itself as the only text of a session. The scores come in
// the order of the texts. There may be 1,024 texts. An error ends them. Where the
// caller leaves the loop the request ends.
func (c *Client) ScoreTexts(
	ctx context.Context, texts []string, o TextsOptions,
) iter.Seq2[TextScore, error] {
	asked := ScoreTextsRequest{
		Texts: texts, Model: orNil(o.Model), Settings: o.Settings, Seed: o.Seed,
	}
	ask := func(ctx context.Context) made {
		body, err := jsonBody(asked)
		if err != nil {
			return made{nil, err}
		}
		return request(newScoreTextsRequest(ctx, c.base, mediaJSON, body))
	}
	decode := func(_ string, object []byte) (score TextScore, last bool, err error) {
		err = json.Unmarshal(object, &score)
		return score, int(score.Index) == len(texts)-1, err
	}
	return streamed(ctx, c, mediaNDJSON, ask, decode)
}
