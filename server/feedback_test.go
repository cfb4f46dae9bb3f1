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

// requestLog returns lines of a healthy server's log. The line numbers run from `from` to `to`-1.
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

func TestVerdictIsKeptUntilItIsRevoked(t *testing.T) {
	g := newRealRig(t, withCounts(t), Options{})
	path := g.create(ofCounts)
	g.text(path+"/score?unit=line", requestLog(0, 400)+"09:05:00 ERROR db-2 lost\n")
	list := decode[api.IncidentList](t, g.do("GET", path+"/incidents", nil), http.StatusOK)
	require.Len(t, list.Incidents, 1)
	require.Nil(t, list.Incidents[0].Verdict)
	judge := func(body string) api.IncidentList {
		t.Helper()
		return decode[api.IncidentList](t, g.json(path+"/feedback", body), http.StatusOK)
	}
	list = judge(`{"incident":1,"verdict":"false_alarm"}`)
	require.Equal(t, api.VerdictFalseAlarm, *list.Incidents[0].Verdict)
	require.Equal(t, []api.Feedback{{
		Incident: 1, Verdict: api.VerdictFalseAlarm, Sample: "09:05:00 ERROR db-2 lost",
	}}, list.Feedback)
	requireProblem(t, g.json(path+"/feedback", `{"incident":2,"verdict":"matters"}`),
		api.ProblemInvalidField)
	list = judge(`{"incident":1}`)
	require.Empty(t, list.Feedback)
	require.Nil(t, list.Incidents[0].Verdict)
}
