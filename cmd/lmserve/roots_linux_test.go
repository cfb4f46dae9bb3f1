package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The container image has no root certificates. Go reads the variables only once, so another
// process must verify.
func TestProgramTrustsRootsWithoutSystemRoots(t *testing.T) {
	empty := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestRootsChild$")
	cmd.Env = append(os.Environ(), "LMSERVE_TEST_ROOTS=1",
		"SSL_CERT_FILE="+filepath.Join(empty, "none"), "SSL_CERT_DIR="+empty)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestRootsChild(t *testing.T) {
	if os.Getenv("LMSERVE_TEST_ROOTS") == "" {
		t.Skip("another test runs this one")
	}
	verified := 0
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		require.NoError(t, err)
		if root.Constraint != nil || time.Now().After(certificate.NotAfter) {
			continue
		}
		_, err = certificate.Verify(x509.VerifyOptions{})
		require.NoError(t, err, "%s", certificate.Subject)
		verified++
	}
	require.Greater(t, verified, 50)
}
