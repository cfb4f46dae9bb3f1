package client

import (
	"context"
	"encoding/json"
	"iter"
)

// TextsOptions configures how texts are scored. The zero value uses the default model.
type TextsOptions struct {
	Model    string // id or name; "" means the default model
	Settings *SettingsRequest
	Seed     *uint64 // random seed for scoring each text; nil means 0
}

// ScoreTexts scores up to 1,024 texts, each as the only text of a new session. Scores arrive in the
// order of the texts. An error is the last item. If the caller stops iterating, the request ends.
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
