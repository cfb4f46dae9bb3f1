package train
import ("testing";"context";"path/filepath";"fmt";"github.com/stretchr/testify/require")
func TestZZ(t *testing.T) {
	for _, lr := range []float64{1e-3,3e-3,1e-2} { for _, p := range []float64{.05,.3} {
	o := metaOptions(t, SchemeWindow)
	o.Phase, o.Valid = PhaseMeta, ""
	o.Meta.Steps, o.Meta.Window.SlowOptions = 150, SlowOptions{Rate: lr}
	o.Meta.Window.P=p
	o.LogEvery=15
	o.Metrics = filepath.Join(t.TempDir(), "m")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	fmt.Print(lr," ",p,": ")
	for _, l := range readMetrics(t, o.Metrics) { fmt.Printf("%.2f(%.1f) ", l.Loss,l.GradNorm) }
	fmt.Println()
	}}
}
