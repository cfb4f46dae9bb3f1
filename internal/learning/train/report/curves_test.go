package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/lab/chart"
)

func TestThinnedCurvesKeepTheirMean(t *testing.T) {
	var points []chart.Point
	for i := range 10*curvePoints + 7 {
		points = append(points, chart.Point{X: float64(i), Y: 2 * float64(i)})
	}
	thin := thinned(points)
	require.Len(t, thin, curvePoints)
	for i, p := range thin {
		require.InDelta(t, 2*p.X, p.Y, 1e-6)
		if i > 0 {
			require.Greater(t, p.X, thin[i-1].X)
		}
	}
	require.Equal(t, points[:curvePoints], thinned(points[:curvePoints]))
}
