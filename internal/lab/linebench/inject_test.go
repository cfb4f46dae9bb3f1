package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func weblog(n int) (log []string) {
	for i := range n {
		log = append(
			log,
			fmt.Sprintf(`%05d notice user=anna GET /static/page.html status=%d`, i, 200+i%2),
		)
	}
	return log
}

func TestInjectedLinesAreAFunctionOfLogAndSeed(t *testing.T) {
	log := weblog(1000)
	require.Equal(t, inject(log, 3), inject(log, 3))
	require.NotEqual(t, inject(log, 3), inject(log, 4))
}

// Removing the injected lines and restoring the changed fields gives the original log.
func TestInjectionLeavesTheRestOfTheLogAsItIs(t *testing.T) {
	log := weblog(1000)
	for seed := range uint64(5) {
		at, incidents := 0, map[int]kind{}
		for i, l := range inject(log, seed) {
			if l.kind == ordinary {
				require.Equal(t, log[at], l.text)
				require.Equal(t, -1, l.incident)
				at++
				continue
			}
			require.GreaterOrEqual(t, i, len(log)/4, "the first quarter is left alone")
			if k, known := incidents[l.incident]; known {
				require.Equal(t, k, l.kind, "an incident is of one kind")
			}
			incidents[l.incident] = l.kind
			switch l.kind {
			case field:
				require.Equal(t, log[at][:6], l.text[:6],
					"a changed field stands in a line of the log")
				require.NotEqual(t, log[at], l.text)
				at++
			case wrong:
				require.Contains(t, log[:at-old+1], l.text, "a line out of time is an old one")
			case foreign:
				require.False(t, strings.Contains(l.text, "user=anna"))
			}
		}
		require.Equal(t, len(log), at)
		require.Len(t, incidents, (1000-250)/apart)
	}
}

func TestFieldsAreFoundInLines(t *testing.T) {
	for text, want := range map[string][]string{
		`GET /index.html HTTP/1.1" 404 17`:                     {"/index.html", "404"},
		`Failed password for root from 10.0.0.1 port 22`:       {"root", "Failed"},
		`Failed password for invalid user admin from 10.0.0.1`: {"admin", "Failed"},
		`session opened for user root by (uid=0)`:              {"root", "opened"},
		`[notice] workerEnv.init() ok /etc/httpd/workers`: {"/etc/httpd/workers", "notice",
			"ok"},
		`mod_jk child in state 6`:                              {"6"},
		`crond[2916]: (root) CMD (run-parts /etc/cron.hourly)`: {"/etc/cron.hourly", "root"},
		`it rained`: nil,
	} {
		var got []string
		for _, f := range fields(text) {
			require.Equal(t, f.value, text[f.from:f.to])
			got = append(got, f.value)
		}
		require.Equal(t, want, got, text)
	}
}
