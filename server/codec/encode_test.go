package codec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// The first sample stays that of the incident's first line, even if it is empty, because alerts
// identify incidents by the first sample.
func TestFirstSampleStaysAsLinesJoin(t *testing.T) {
	var i session.IncidentReport
	i.P = .001
	require.Equal(t, []string{""}, EncodeIncident(&i).Samples)
	i.Samples[1] = "second"
	require.Equal(t, []string{"", "second"}, EncodeIncident(&i).Samples)
}
