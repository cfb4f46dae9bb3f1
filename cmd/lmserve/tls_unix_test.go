//go:build unix

package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While a pipe replaces the certificate file, handshakes use the old certificate without delay.
// When a regular file replaces the pipe, the server loads the file.
func TestTLSHandshakesSurviveAPipe(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key, 1)
	reports := make(chan error, 16)
	config, err := tlsConfig(cert, key, func(err error) { reports <- err })
	require.NoError(t, err)
	next := func() *tls.Certificate {
		answer := make(chan *tls.Certificate, 1)
		go func() {
			c, _ := config.GetCertificate(nil)
			answer <- c
		}()
		select {
		case c := <-answer:
			return c
		case <-time.After(30 * time.Second):
			t.Fatal("a handshake waits for the pipe")
			return nil
		}
	}
	first := next()
	require.NotNil(t, first)
	require.NoError(t, os.Rename(cert, cert+".kept"))
	require.NoError(t, syscall.Mkfifo(cert, 0o600))
	time.Sleep(1100 * time.Millisecond) // the files are checked once per second
	require.Same(t, first, next())
	require.ErrorContains(t, <-reports, "found a named pipe, expected a regular file")
	require.NoError(t, os.Remove(cert))
	require.NoError(t, os.Rename(cert+".kept", cert))
	require.Eventually(t, func() bool { return next() != first }, time.Minute, 100*time.Millisecond)
}

func TestEndlessFilesAreRefusedAtOnce(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	_, stderr, code := lmserve("", "--config", "/dev/zero", "sessions", "list")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "/dev/zero has more than 1048576 bytes")
	_, stderr, code = lmserve("", "decompress", "/dev/zero", "--out", filepath.Join(t.TempDir(),
		"out"))
	require.NotZero(t, code)
	require.Contains(t, stderr, "not a text compressed by lmserve")
	_, stderr, code = lmserve("", "score", "--model", "/dev/zero", os.DevNull)
	require.NotZero(t, code)
	require.Contains(t, stderr, "found a device, expected a regular file")
}
