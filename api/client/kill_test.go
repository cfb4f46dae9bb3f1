package client_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/server"
)

// servedFolder is an environment variable. If it contains the path of a data folder, the test
// program runs as a server of that folder.
const servedFolder = "LMSERVE_TEST_SERVED_FOLDER"

func socketOf(dir string) string { return filepath.Join(dir, "socket") }

func serveFolder(dir string) error {
	m, err := modeltest.Small()
	if err != nil {
		return err
	}
	store, err := datafolder.Open(filepath.Join(dir, "data"), datafolder.Options{})
	if err != nil {
		return err
	}
	mg, err := session.NewManager(m, session.Options{Store: store})
	if err != nil {
		return err
	}
	s, err := server.New(mg, server.Options{})
	if err != nil {
		return err
	}
	_ = os.Remove(socketOf(dir))
	l, err := net.Listen("unix", socketOf(dir))
	if err != nil {
		return err
	}
	return s.Serve(l)
}

func TestKilledServerChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	p := &killed{dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, "data"), 0o700))
	transport := &http.Transport{DialContext: p.dial}
	defer transport.CloseIdleConnections()
	counted := &countedForks{RoundTripper: transport}
	c, err := client.New("http://localhost",
		client.WithHTTPClient(&http.Client{Transport: counted}))
	require.NoError(t, err)

	kills := 0
	for seed, kind := range []string{"lines", "unflagged", "chunks", "records"} {
		text := requests(300)
		p.start(t)
		whole, pieces := newListener(c, kind), newListener(c, kind)
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			pieces.feed(t, strings.NewReader(text), 700)
		}()
		kills += p.killUntil(t, fed, rand.New(rand.NewPCG(uint64(seed), 0)))
		whole.feed(t, strings.NewReader(text), 1<<20)
		require.Equal(t, whole.heard, pieces.heard, kind)
		require.Equal(t, state(t, c, whole.id), state(t, c, pieces.id), kind)
		p.kill(t)
	}
	t.Logf("the server was killed %d times, and %d forks were made to tell what was lost",
		kills, counted.forks.Load())
	require.Positive(t, kills)
}

type killed struct {
	dir     string
	process *exec.Cmd
}

func (p *killed) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socketOf(p.dir))
}

func (p *killed) start(t *testing.T) {
	p.process = exec.Command(os.Args[0])
	p.process.Env = append(os.Environ(), servedFolder+"="+p.dir)
	p.process.Stderr = os.Stderr
	require.NoError(t, p.process.Start())
	require.Eventually(t, func() bool {
		conn, err := p.dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, time.Millisecond)
}

func (p *killed) kill(t *testing.T) {
	require.NoError(t, p.process.Process.Kill())
	_ = p.process.Wait()
}

func (p *killed) killUntil(t *testing.T, fed <-chan struct{}, r *rand.Rand) (kills int) {
	for ; kills < 5; kills++ {
		select {
		case <-fed:
			return kills
		case <-time.After(time.Duration(r.IntN(150)) * time.Millisecond):
		}
		p.kill(t)
		p.start(t)
	}
	<-fed
	return kills
}
