package main

import (
	"crypto/tls"
	"fmt"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

// tlsConfig serves the certificate of two files, and reads the files again when they change; while
// the two do not fit each other, the certificate before stays. Without files the result is nil.
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
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", cert, key, err)
		}
		return &c, nil
	}, report, cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, _ := pair.Get() // an error of newer files goes to report
			return c, nil
		},
	}, nil
}

// pemBytesMax is more than a chain of certificates takes.
const pemBytesMax = 1 << 20

// readKeyPair is tls.LoadX509KeyPair of regular files: handshakes wait for the reading.
func readKeyPair(cert, key string) (c tls.Certificate, err error) {
	var texts [2][]byte
	for i, path := range []string{cert, key} {
		if texts[i], err = reload.ReadFile(path, pemBytesMax); err != nil {
			return c, err
		}
	}
	return tls.X509KeyPair(texts[0], texts[1])
}

// reportReload returns a function that logs whether files that have changed could be read again.
func reportReload(log *zap.Logger, what string) func(error) {
	return func(err error) {
		if err != nil {
			log.Error(what+" not reloaded, those before stay in force", zap.Error(err))
			return
		}
		log.Info(what + " reloaded")
	}
}
