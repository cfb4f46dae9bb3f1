package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/learning/train"
)

// lines parses shorthand such as "start:pretrain:0": event, phase and step. The time of line i is
// i*i seconds after line 0.
func lines(shorthand ...string) (all []Metric) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, s := range shorthand {
		parts := strings.Split(s, ":")
		step, err := strconv.Atoi(parts[2])
		if err != nil {
			panic(err)
		}
		all = append(all, Metric{Event: parts[0], Phase: parts[1], Step: step,
			Time: begin.Add(time.Duration(i*i) * time.Second)})
	}
	return all
}

func shorthand(all []Metric) (out []string) {
	for _, l := range all {
		out = append(out, fmt.Sprintf("%s:%s:%d", l.Event, l.Phase, l.Step))
	}
	return out
}

// When a run resumes from a checkpoint, lines that were written after the checkpoint no longer
// count.
func TestLaterSittingSupersedes(t *testing.T) {
	all := lines("start:pretrain:0", "step:pretrain:10", "step:pretrain:20", "valid:pretrain:20",
		"step:pretrain:30", "start:meta:0", "step:meta:10",
		"resume:pretrain:20", "step:pretrain:30", "end:pretrain:30", "start:meta:0", "step:meta:10",
		"resume:meta:10", "step:meta:20")
	require.Equal(t, shorthand(lines("start:pretrain:0", "step:pretrain:10", "step:pretrain:20",
		"valid:pretrain:20",
		"resume:pretrain:20", "step:pretrain:30", "end:pretrain:30", "start:meta:0", "step:meta:10",
		"resume:meta:10", "step:meta:20")),
		shorthand(current(all, []string{train.PhasePretrain, train.PhaseMeta})))
	require.Equal(t, shorthand(lines("start:meta:0", "step:meta:10", "resume:meta:10",
		"step:meta:20")),
		shorthand(current(all, []string{train.PhaseMeta})), "of the phases of this run")
}

func TestLinesOfTheLastRun(t *testing.T) {
	all := lines("start:pretrain:0", "step:pretrain:10", "start:pretrain:0", "step:pretrain:5",
		"start:meta:0")
	require.Equal(t, shorthand(all[2:]), shorthand(ofRun(all, train.PhasePretrain)))
}

// The time before a resumption does not count. Steps that were repeated after a resumption count
// twice.
func TestElapsedTimeIsThatOfTheSittings(t *testing.T) {
	all := lines("start:pretrain:0", "step:pretrain:10", "step:pretrain:20", "resume:pretrain:10",
		"step:pretrain:20", "start:meta:0", "step:meta:10")
	spent := elapsed(all)
	require.Equal(t, time.Duration(1+3+7)*time.Second, spent[train.PhasePretrain])
	require.Equal(t, 11*time.Second, spent[train.PhaseMeta])
}

func TestMetricsContinueAfterACutOffLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"start","phase":"pretrain"}`+"\n"+
		`{"event":"step","pha`), 0o666))
	m, again := &metrics{path: path}, &metrics{path: path}
	require.NoError(t, m.open())
	require.NoError(t, m.write(Metric{Event: eventResume, Phase: train.PhasePretrain, Step: 3}))
	require.NoError(t, m.close())
	require.NoError(t, again.open())
	require.NoError(t, again.close())
	for _, m := range []*metrics{m, again} {
		require.Len(t, m.lines, 2)
		require.Equal(t, eventStart, m.lines[0].Event)
		require.Equal(t, 3, m.lines[1].Step)
	}
}

func TestMetricsOfWordsHavePerplexities(t *testing.T) {
	adaptive := 6.
	for unit, want := range map[train.Unit]float64{train.Perplexity: 1, train.PerByte: 0} {
		m := &metrics{pace: pace{every: 1}}
		for _, e := range []train.Event{
			train.Opened{Unit: unit}, train.Begun{},
			train.Stepped{
				Standing: train.Standing{Step: 1},
				Outcome:  train.Outcome{Loss: 5 / train.BitsPerNat, Tokens: 50},
			},
			train.Validated{Measurement: train.Measurement{Static: 7, Adaptive: &adaptive}},
		} {
			require.NoError(t, m.Observe(e))
		}
		step, valid := m.lines[1], m.lines[2]
		require.InDelta(t, 5, step.Bits, 1e-9)
		require.InDelta(t, 32*want, step.Perplexity, 1e-6)
		require.Equal(t, []float64{7, 6}, []float64{valid.Static, valid.Adaptive})
		require.Equal(t, []float64{128 * want, 64 * want},
			[]float64{valid.StaticPerplexity, valid.AdaptivePerplexity})
	}
}

func TestProgressOfWordsIsPerplexity(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, pace: pace{every: 1000}, unit: train.Perplexity}
	start := time.Now()
	p.begin(train.Standing{Phase: "meta", Steps: 10}, start)
	at := train.Standing{Phase: "meta", Step: 1, Steps: 10, Loss: 3 / train.BitsPerNat}
	p.stepped(train.Stepped{Standing: at, Outcome: train.Outcome{Tokens: 100}},
		start.Add(lineFirst))
	require.Contains(t, out.String(), "loss 2.0794  perplexity 8.00  ")
}

// A coarse clock may measure no time for a short step. JSON has no infinity.
func TestSpeedWithoutTime(t *testing.T) {
	now := time.Now()
	p := pace{every: 1, started: now, tokens: 5}
	require.Zero(t, p.tokensPerSec(now))
	require.InDelta(t, 2.5, p.tokensPerSec(now.Add(2*time.Second)), 1e-9)
}
