package main

import (
	"crypto/tls"
	"fmt"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

// tlsConfig returns a TLS configuration with the certificate and key in two files, and reloads them
// when they change. If the changed files do not match each other, the previous certificate stays in
// use. Without files, tlsConfig returns nil.
func tlsConfig(cert, key string, report func(error)) (*tls.Config, error) {
	switch {
	case cert == "" && key == "":
		return nil, nil
	case key == "":
		return nil, usagef("--tls-cert is given without --tls-key, expected both or neither")
	case cert == "":
		return nil, usagef("--tls-key is given without --tls-cert, expected both or neither")
	}
	pair, err := reload.New(func() (*tls.Certificate, error) {
		c, err := readKeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s and --tls-key %s cannot be used: "+
				"%w", cert, key, err)
		}
		return &c, nil
	}, report, cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, _ := pair.Get() // errors in reading changed files go to the function report
			return c, nil
		},
	}, nil
}

const pemBytesMax = 1 << 20

// readKeyPair is like tls.LoadX509KeyPair, but accepts only regular files, because reading a pipe
// could block all TLS handshakes.
func readKeyPair(cert, key string) (c tls.Certificate, err error) {
	var texts [2][]byte
	for i, path := range []string{cert, key} {
		if texts[i], err = reload.ReadFile(path, pemBytesMax); err != nil {
			return c, err
		}
	}
	return tls.X509KeyPair(texts[0], texts[1])
}

func reportReload(log *zap.Logger, what string) func(error) {
	return func(err error) {
		if err != nil {
			log.Error(what+" not reloaded; the earlier contents stay in use", zap.Error(err))
			return
		}
		log.Info(what + " reloaded")
	}
}
