package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperatorIsNotShownFalseAlarmsAgain(t *testing.T) {
	var log []line
	for i := range 1500 {
		l := line{text: fmt.Sprintf("GET /%d 200", i*i%7), label: ordinaryLabel}
		switch {
		case i == 1200:
			l = line{text: "kernel: disk lost", label: "disk"}
		case i >= 300 && i%250 == 50:
			l.text = fmt.Sprintf("RETRY of shard %c", 'a'+i%26)
		}
		log = append(log, l)
	}
	without := operate(log, operator{threshold: .01})
	with := operate(log, operator{threshold: .01, answers: 1})
	require.Equal(t, 1, without.found)
	require.Equal(t, 1, with.found, "what matters is shown all the same")
	require.Greater(t, without.shown, 2)
	require.Less(t, with.shown, without.shown)
	require.Equal(t, 1, with.incidents)
}
