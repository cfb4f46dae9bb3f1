package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// requestLog is lines of a server that is well, from one on.
func requestLog(from, to int) string {
	var b strings.Builder
	paths := []string{"/", "/about", "/login", "/items"}
	for n := from; n < to; n++ {
		b.WriteString("09:04:" + []string{"01", "12", "23", "34"}[n%4] + " INFO GET " +
			paths[n*7%4] + " 200\n")
	}
	return b.String()
}

func withCounts(t *testing.T) session.Options {
	t.Helper()
	counts, _, err := model.NewSource(func() (*model.Model, error) { return model.Counts(), nil })
	require.NoError(t, err)
	return session.Options{Threads: 2, Others: []*model.Source{counts}}
}

const ofCounts = `{"settings":{"method":"counts","companion":false}}`

func TestVerdictIsKeptUntilItIsTakenBack(t *testing.T) {
	g := newRealRig(t, withCounts(t), Options{})
	path := g.create(ofCounts)
	g.text(path+"/score?unit=line", requestLog(0, 400)+"09:05:00 ERROR db-2 lost\n")
	last := func() *api.Verdict {
		t.Helper()
		resp := g.text(path+"/score?unit=line&learn=false", "")
		sum := decode[api.SummaryEvent](t, resp, http.StatusOK)
		require.Len(t, sum.Incidents, 1)
		return sum.Incidents[0].Verdict
	}
	require.Nil(t, last())
	judge := func(verdict string) []api.Feedback {
		t.Helper()
		resp := g.send("PATCH", path, `{"feedback":{"1":`+verdict+`}}`)
		return decode[api.Session](t, resp, http.StatusOK).Feedback
	}
	require.Equal(t, []api.Feedback{{
		Incident: 1, Verdict: api.VerdictFalseAlarm, Sample: "09:05:00 ERROR db-2 lost",
	}}, judge(`"false_alarm"`))
	require.Equal(t, api.VerdictFalseAlarm, *last())
	require.Empty(t, judge("null"))
	require.Nil(t, last())
}
