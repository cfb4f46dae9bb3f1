//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// The first Ctrl-C ends a command that waits for another program to open a named pipe, or for data
// from an open pipe.
func TestCtrlCEndsACommandThatWaitsForAPipe(t *testing.T) {
	m, err := modeltest.SmallFile(t.TempDir())
	require.NoError(t, err)
	data := t.TempDir()
	store, err := folder.Open(data, folder.Options{})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	for _, args := range [][]string{
		{"score", "PIPE", "--model", m}, {"watch", "PIPE", "--model", m},
		{"complete", "--after", "PIPE", "--model", m},
		{"compress", "PIPE", "--out", "OUT", "--model", m},
		{"decompress", "PIPE", "--out", "OUT", "--model", m},
		{"restore", "PIPE", "OUT"},
		{"sessions", "import", "PIPE", "--data-dir", data, "--model", m},
		{"bench", "--config", "PIPE.json"},
		{"train", "--config", "PIPE.json", "--data", "DIR", "--out", "OUT"},
		{"backup", "--server", "http://127.0.0.1:1", "--key-file", "PIPE", "OUT"},
		{"--config", "PIPE", "models"},
	} {
		for _, written := range []bool{false, true} {
			name := strings.Join(args, " ")
			dir := t.TempDir()
			replace := strings.NewReplacer("PIPE", filepath.Join(dir, "pipe"), "OUT",
				filepath.Join(dir, "out"), "DIR", dir)
			call, pipe := []string{}, ""
			for _, arg := range args {
				replaced := replace.Replace(arg)
				if call = append(call, replaced); strings.HasPrefix(arg, "PIPE") {
					pipe = replaced
				}
			}
			require.NoError(t, syscall.Mkfifo(pipe, 0o600))
			var writer *os.File
			if written {
				writer, err = os.OpenFile(pipe, os.O_RDWR, 0)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			ended := make(chan int, 1)
			var stderr bytes.Buffer
			go func() {
				ended <- run(ctx, call, strings.NewReader(""), new(bytes.Buffer),
					&stderr)
			}()
			time.AfterFunc(20*time.Millisecond, func() { cancel(signalError{syscall.SIGINT}) })
			select {
			case code := <-ended:
				want := []int{exitSignal + int(syscall.SIGINT)}
				if args[0] == "watch" {
					// after its start, the command watch treats Ctrl-C as a normal end
					want = append(want, 0)
				}
				require.Contains(t, want, code, "%s, written: %t: %s", name, written,
					stderr.String())
			case <-time.After(time.Minute):
				require.Fail(t, "the command goes on", "%s, written: %t", name, written)
			}
			// Opening the pipe here releases a goroutine of the command that still waits for a
			// writer.
			release, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
			require.NoError(t, err)
			time.AfterFunc(time.Second, func() { release.Close() })
			if written {
				require.NoError(t, writer.Close())
			}
		}
	}
}

// The command convert refuses named pipes as input, because it reads its input files several times
// or from the middle. It does not wait for a writer of the pipe.
func TestPipesAreNoCheckpoints(t *testing.T) {
	dir, _ := huggingFolder(t, 256)
	pipe, out := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, args := range [][]string{{pipe}, {dir, "--vocab", pipe}} {
		_, stderr, code := lmserve("", append([]string{"convert", "--out", out}, args...)...)
		require.Equal(t, exitFailure, code, stderr)
		require.Contains(t, stderr, pipe+": found a named pipe, expected a regular file")
	}
}
