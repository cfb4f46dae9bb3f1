package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func telling(t *testing.T, first, lines time.Duration) {
	before := [2]time.Duration{progressFirst, progressLines}
	progressFirst, progressLines = first, lines
	t.Cleanup(func() { progressFirst, progressLines = before[0], before[1] })
}

// A terminal with TERM=dumb gets no escape sequences: no bars, no redrawn lines, no colors.
func TestDumbTerminalIsNotDrawnOn(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	defer terminal.Close()
	t.Setenv("NO_COLOR", "")
	for term, draws := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", term)
		require.Equal(t, draws, isTerminal(terminal), term)
		require.Equal(t, draws, styleOf(terminal).Color, term)
	}
}

func TestProgressIsReportedInLines(t *testing.T) {
	telling(t, time.Millisecond, time.Millisecond)
	var out bytes.Buffer
	locked := &lockedWriter{w: &out}
	c := &cobra.Command{}
	c.SetErr(locked)
	p := newProgress(c, "work")
	p.say("reading")
	p.set(0, 4<<20)
	time.Sleep(20 * time.Millisecond)
	p.set(1<<20, 4<<20)
	time.Sleep(20 * time.Millisecond)
	p.end()
	p.end()
	require.Contains(t, out.String(), "lmserve: work: reading, 0 % of 4.0 MiB, 0s so far\n")
	require.Regexp(t, `lmserve: work: reading, 25 % of 4\.0 MiB, \d+s left\n`, out.String())

	progressFirst = time.Hour
	out.Reset()
	p = newProgressOf(c, "work", "file")
	p.set(3, 4)
	p.end()
	require.Empty(t, out.String())
	require.Equal(t, "75 % of 4 files, 0s so far", p.line())
}

func TestProgressOfAFileThatIsRead(t *testing.T) {
	telling(t, time.Hour, time.Hour)
	p := newProgress(&cobra.Command{}, "work")
	defer p.end()
	r := p.reading(t.Context(), strings.NewReader("0123456789"), 10)
	_, err := io.ReadFull(r, make([]byte, 5))
	require.NoError(t, err)
	require.Contains(t, p.line(), "50 % of 10 B, ")
	_, err = io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "10 B, 0s so far", p.line(), "what comes after the end nobody can measure")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.reading(ctx, strings.NewReader("text"), 4).Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
}

func TestQuiet(t *testing.T) {
	telling(t, 0, time.Millisecond)
	dir := documentsOf(t, map[string]string{"a": strings.Repeat("some text\n", 5000)})
	args := []string{"eval", "--model", randomModel(t), "--data", dir, "--methods", "static"}
	_, stderr, code := lmserve("", args...)
	require.Zero(t, code)
	require.Contains(t, stderr, "lmserve: eval: ")
	_, stderr, _ = lmserve("", append(args, "--quiet")...)
	require.Empty(t, stderr)
	t.Setenv("LMSERVE_QUIET", "true")
	_, stderr, _ = lmserve("", args...)
	require.Empty(t, stderr)
}
