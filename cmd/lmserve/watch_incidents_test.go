package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

// A line that was scored before the user's verdict is reported after the verdict.
func TestVerdictOutlivesEarlierLine(t *testing.T) {
	for _, state := range []client.IncidentState{client.IncidentOpen, client.IncidentClosed} {
		var out strings.Builder
		r := newLineReport(&out, &out, false)
		r.incidents, r.threshold = &incidentReport{}, 0.01
		line := func(number int64, state client.IncidentState) {
			_, err := r.line(watch.Found{Line: client.LineEvent{
				Number: number, P: 0.001, Incidents: []client.Incident{{
					Number: 1, First: 10, Last: number, Lines: number - 9, P: 0.001, State: state,
				}},
			}})
			require.NoError(t, err)
		}
		line(10, client.IncidentOpen)
		printed := out.String()
		r.judged("", 1, new(client.VerdictFalseAlarm))
		line(90, state)
		require.NoError(t, r.end())
		require.Equal(t, printed, out.String())
	}
}
