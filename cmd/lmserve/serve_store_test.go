package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeRefusesTwoPlacesForSessions(t *testing.T) {
	const store, objects = "postgres://lmserve:secret@127.0.0.1:1/lmserve", "file:///nowhere"
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--store", store}, "--store is given without --objects"},
		{[]string{"--objects", objects}, "--objects is given without --store"},
		{[]string{"--store", store, "--objects", objects, "--data-dir", "none"},
			"--data-dir is none and --store is given"},
		{[]string{"--store", store, "--objects", objects, "--disk-budget", "1G"},
			"--disk-budget is 1G and --store is given"},
		{[]string{"--advertise", "http://h:1"}, "--advertise is given without --store"},
		{[]string{"--store", store, "--objects", objects, "--node", "n"},
			"--node is given without --advertise"},
		{[]string{"--store", store, "--objects", objects, "--advertise", "h:1"},
			`--advertise is "h:1", expected a URL such as https://`},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1/x"},
			`--advertise is "http://h:1/x", expected`},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1", "--lease",
			"10ms"}, "--lease is 10ms, expected at least 1s"},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1",
			"--user-sessions"}, "--user-sessions and --advertise are both given"},
		{[]string{"--store", "mysql://host/name", "--objects", objects},
			"does not begin with postgres://"},
	} {
		_, stderr, code := lmserve("", append([]string{"serve", "--listen", "127.0.0.1:0",
			"--log-format", "none"}, test.args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, test.says)
		require.NotContains(t, stderr, "secret")
	}
	_, stderr, code := lmserve("", "migrate")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--store is not given")
	require.Equal(t, "postgres://db/lmserve",
		plain("postgres://lmserve:secret@db/lmserve?password=secret"))
}
