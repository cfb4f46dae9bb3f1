package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/learning/train"
)

// The first line comes early, because it shows the first estimate of the remaining time.
func TestProgressWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out, pace: pace{every: 1000}, unit: train.PerByte}
	start := time.Now()
	at := func(step int) train.Stepped {
		return train.Stepped{
			Standing: train.Standing{Phase: "pretrain", Step: step, Steps: 1100, Loss: 2},
			Outcome:  train.Outcome{Tokens: 10000},
		}
	}
	p.begin(at(100).Standing, start)
	require.Equal(t, "pretrain continues after step 100\n", out.String())
	out.Reset()
	p.stepped(at(119), start.Add(lineFirst-1))
	require.Empty(t, out.String())
	now := start.Add(4 * time.Second)
	p.stepped(at(120), now)
	require.Equal(t, "pretrain step 120/1100  loss 2.0000  bits/byte 2.8854  5000 tokens/s  "+
		"3m16s left\n", out.String())
	out.Reset()
	p.stepped(at(121), now.Add(lineInterval-1))
	require.Empty(t, out.String())
	p.stepped(at(122), now.Add(lineInterval))
	require.Contains(t, out.String(), "pretrain step 122/1100")
	p.end(1100)
}

func TestProgressMayBeSilent(t *testing.T) {
	o, err := New(Options{})
	require.NoError(t, err)
	planned := train.Planned{Estimate: func() (time.Duration,
		error) {
		panic("nobody wants to know")
	}}
	for _, e := range []train.Event{train.Noted{Text: "nothing"}, planned, train.Ready{},
		train.Begun{}, train.Stepped{}, train.Ended{}} {
		require.NoError(t, o.Observe(e))
	}
}

func TestLogEveryOutOfRangeIsNamed(t *testing.T) {
	_, err := New(Options{LogEvery: -1})
	require.EqualError(t, err, "train: option LogEvery is -1, expected 1 to 1073741824")
}
