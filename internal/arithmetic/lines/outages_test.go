package lines

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// outage feeds a log of testdata/outages to a meter. It passes each line and incident that the
// command `watch` prints by default to the function `each`.
func outage(t *testing.T, name string, each func(l *Line, i *incidents.Incident)) {
	file, err := os.Open(filepath.Join("testdata", "outages", name+".log.gz"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	m, lines := NewMeter(), bufio.NewScanner(unpacked)
	for lines.Scan() {
		for _, b := range append(lines.Bytes(), '\n') {
			m.Add(b, 0, 0, func(l *Line) {
				for n := range l.Incidents {
					if i := &l.Incidents[n]; i.P <= 1./1000 || len(i.Changes) > 0 {
						each(l, i)
					}
				}
			})
		}
	}
	require.NoError(t, lines.Err())
}

// nginx passes requests to two servers. Both servers are killed at line 887 and are down for 111
// lines.
func TestOutageOfBackendIsReported(t *testing.T) {
	told, lines := int64(0), int64(0)
	outage(t, "backend-down", func(l *Line, i *incidents.Incident) {
		if told == 0 && l.Number >= 887 {
			told = l.Number
			require.Equal(t, "surge", i.Changes[0].Kind)
			require.Regexp(t, `^HTTP 502: 0 of 8\d\d, then \d+ of \d+$`, i.Changes[0].Evidence)
		}
		if i.First >= 887 && i.First < 1000 {
			lines = max(lines, i.Lines)
		}
		require.GreaterOrEqual(t, l.Number, int64(887), "%+v", i)
	})
	require.LessOrEqual(t, told, int64(887+20))
	require.InDelta(t, 111, lines, 12)
}

// In this log, a process of PostgreSQL is killed at line 571.
func TestKilledDatabaseIsReported(t *testing.T) {
	told := int64(0)
	outage(t, "database-killed", func(l *Line, i *incidents.Incident) {
		if told == 0 && l.Number >= 571 {
			told = l.Number
			require.Contains(t, string(l.Text), "was terminated by signal 9: Killed")
		}
	})
	require.EqualValues(t, 571, told)
}

// In this log, a worker's jobs run out of memory at line 265. The worker's heartbeat, every 35 s,
// stops at line 431.
func TestStoppedHeartbeatIsReported(t *testing.T) {
	var told []int64
	evidence := ""
	outage(t, "heartbeat-stops", func(l *Line, i *incidents.Incident) {
		if len(told) == 0 {
			require.Contains(t, string(l.Text), "MemoryError")
		}
		told = append(told, l.Number)
		if l.Number > 431 && evidence == "" {
			evidence = i.Changes[len(i.Changes)-1].Evidence
		}
	})
	require.EqualValues(t, 265, told[0])
	require.Regexp(t, `heartbeat.*: every 3\d.*, silent since 08:30:01$`, evidence)
}
