package client_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(servedFolder); dir != "" {
		if err := serveFolder(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func serve() (url string, stop func()) {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	m, err := model.Default()
	must(err)
	mg, err := session.NewManager(m, session.Options{})
	must(err)
	s, err := server.New(mg, server.Options{})
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		http.DefaultClient.CloseIdleConnections()
		must(s.Drain(context.Background()))
		must(<-served)
	}
}

// rig is a server with a small random model, and its client.
type rig struct {
	*client.Client
	url       string
	mg        *session.Manager
	transport *http.Transport
}

func newRig(t testing.TB, sessions session.Options, options ...client.Option) *rig {
	t.Helper()
	return newRigOf(t, modeltest.Small, sessions, options...)
}

func newRigOf(
	t testing.TB, open func() (*model.Model, error), sessions session.Options,
	options ...client.Option,
) *rig {
	t.Helper()
	m, err := open()
	require.NoError(t, err)
	mg, err := session.NewManager(m, sessions)
	require.NoError(t, err)
	s, err := server.New(mg, server.Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	r := &rig{url: "http://" + l.Addr().String(), mg: mg, transport: &http.Transport{}}
	r.Client = r.with(t, options...)
	t.Cleanup(func() {
		r.transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-served)
	})
	return r
}

func (r *rig) with(t testing.TB, options ...client.Option) *client.Client {
	t.Helper()
	all := append([]client.Option{
		client.WithHTTPClient(&http.Client{Transport: r.transport}),
	}, options...)
	c, err := client.New(r.url, all...)
	require.NoError(t, err)
	return c
}

func requests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "GET /item/%d HTTP/1.1 -> %d\n", i*7%10, 200+i%3)
	}
	return b.String()
}
