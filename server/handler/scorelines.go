package handler

import (
	"context"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/routes"
)

// scoreLines answers with one JSON object, which has as many lines as fit in limits.AnswerLinesMax
// bytes.
func (h *Handlers) scoreLines(ctx context.Context, c scoreCall) (routes.ScoreResponseObject,
	error) {
	taken, err := h.Memory.Take(ctx, limits.AnswerLinesMax)
	if err != nil {
		return nil, err
	}
	defer taken.Keep(0)
	all := lineList{encode: c.encode}
	summary, err := c.run(ctx, func(chunk session.Chunk) error {
		for _, l := range told(&chunk) {
			all.add(l, chunk.ByLine)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range []*session.Line{summary.Last, summary.Rest} {
		if l != nil {
			all.add(*l, c.options.Learn == session.LearnUnflagged)
		}
	}
	body := c.encode.Summary(summary)
	body.Lines = all.lines
	if all.leftOut > 0 {
		body.LinesLeftOut = &all.leftOut
	}
	return routes.Score200JSONResponse(body), nil
}

// lineList collects the lines of an answer until their memory reaches limits.AnswerLinesMax. It
// counts the lines left out.
type lineList struct {
	encode  codec.Encoder
	lines   []api.LineEvent
	bytes   int
	leftOut int64
}

func (a *lineList) add(l session.Line, byLine bool) {
	a.bytes += limits.LineBytes + limits.LineTextFactor*len(l.Text) +
		limits.LogProbBytes*len(l.TokenBits) +
		session.IncidentBytes*len(l.Incidents)
	if a.bytes > limits.AnswerLinesMax {
		a.leftOut++
		return
	}
	a.lines = append(a.lines, a.encode.Line(l, byLine))
}
