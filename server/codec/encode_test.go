package codec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// The first sample of an incident is its first line, even if the line is empty. Alerts identify an
// incident by its first sample.
func TestFirstSampleStaysAsLinesJoin(t *testing.T) {
	var i session.IncidentReport
	i.P = .001
	require.Equal(t, []string{""}, EncodeIncident(&i).Samples)
	i.Samples[1] = "second"
	require.Equal(t, []string{"", "second"}, EncodeIncident(&i).Samples)
}
