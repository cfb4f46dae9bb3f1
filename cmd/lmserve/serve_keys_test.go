package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey,
		private)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: key}), 0o600))
}

func TestServeFollowsItsKeysAndItsCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 1)
	alice := strings.TrimSpace(must(t, "", "keys", "add", "alice", "--data-dir", dir))
	url, stop := serving(t, "--model", smallModel(t), "--data-dir", dir, "--tls-cert", certFile,
		"--tls-key", keyFile, "--listen", "0.0.0.0:0")
	defer stop()
	require.Regexp(t, `^https://`, url)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	require.NoError(t, err)

	var serial int64
	//nolint:gosec // whose it is is not the point
	transport := &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				serial =
					c.PeerCertificates[0].SerialNumber.Int64()
				return nil
			}}}
	status := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port+
			"/v1/sessions", nil)
		require.NoError(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	soon := func(what string, ok func() bool) {
		require.Eventually(t, ok, time.Minute, 50*time.Millisecond, what)
	}

	require.Equal(t, http.StatusOK, status(alice))
	require.EqualValues(t, 1, serial)
	require.Equal(t, http.StatusUnauthorized, status(""))

	bob := strings.TrimSpace(must(t, "", "keys", "add", "bob", "--data-dir", dir))
	soon("a new key opens", func() bool { return status(bob) == http.StatusOK })
	must(t, "", "keys", "revoke", "alice", "--data-dir", dir)
	soon("a revoked key does not", func() bool { return status(alice) == http.StatusUnauthorized })
	require.Equal(t, http.StatusOK, status(bob))

	writeCertificate(t, certFile, keyFile, 2)
	soon("the new certificate is shown", func() bool {
		return status(bob) == http.StatusOK &&
			serial == 2
	})
	require.NoError(t, os.WriteFile(keyFile, []byte("half a k"), 0o600))
	for range 3 {
		require.Equal(t, http.StatusOK, status(bob), "the pair that fits stays")
	}
}

// A server listens to other machines only with keys and TLS, unless --insecure is given.
func TestServeListensToOtherMachinesOnlyWhenThatIsSafe(t *testing.T) {
	dir, model := t.TempDir(), smallModel(t)
	must(t, "", "keys", "add", "alice", "--data-dir", dir)
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		_, stderr, code := lmserve("", "serve", "--model", model, "--log", "none", "--data-dir",
			t.TempDir(),
			"--listen", listen)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "no keys exist")
		_, stderr, code = lmserve("", "serve", "--model", model, "--log", "none", "--data-dir", dir,
			"--listen", listen)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "unencrypted")
	}
	for _, flags := range [][]string{{"--data-dir", "none", "--listen", "localhost:0"},
		{"--data-dir", "none", "--listen", "127.0.0.7:0"},
		{"--data-dir", "none", "--listen", "0.0.0.0:0", "--insecure"},
		{"--data-dir", dir, "--listen", ":0", "--insecure"},
		{"--keys", filepath.Join(dir, "keys.json")}} {
		_, stop := serving(t, append(flags, "--model", model)...)
		stop()
	}
}
