package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/server"
)

// localURL is the base URL of the server in this process. Its loopback host passes the server's
// host check.
const localURL = "http://localhost"

// localDrainMax is how long the server in this process may take to drain.
const localDrainMax = 30 * time.Second

// connectFlags selects the server and the session of a command. Without --server, the command
// starts a server in its own process, and connects to that server over pipes in memory. Commands
// therefore work the same with local and remote servers.
type connectFlags struct {
	server  string
	besides []string
	session string
	key     string
	shadow  string // file of a second model, or its name at the server; "" for none
	model   modelFlags
	data    dataFlags
}

func (f *connectFlags) register(c *cobra.Command) {
	f.model.register(c)
	c.Flags().Lookup("model").Usage += "; with --server, the name of one of its models"
	f.data.registerFolder(c)
	c.Flags().StringVar(&f.server, "server", "",
		"URL of the server of the session, such as http://127.0.0.1:8080 (default: none, the "+
			"model runs in this process)")
	c.Flags().StringVar(&f.session, "session", "",
		"name or id of the session to continue; if no session has the name, it is created\n"+
			"(default: a new session, deleted at the end)")
	c.Flags().StringVar(&f.key, "key", "", "key for the server, as printed by 'lmserve keys add'")
}

type connection struct {
	URL  string
	HTTP *http.Client
	Key  string

	Shadow string

	close func() error
}

// Close stops the server if it runs in this process.
func (c *connection) Close() error { return c.close() }

// connect connects to the selected server, or starts one in this process. A server in this process
// uses the data folder if the command names a session, else only memory. The caller closes the
// connection.
func (f *connectFlags) connect(c *cobra.Command) (*connection, error) {
	if f.server == "" {
		return f.startLocal(c)
	}
	for _, name := range []string{
		"threads", "precision", memLenName, clampLenName, sameLengthName,
	} {
		if onCommandLine(c, name) {
			err := fmt.Errorf("--%s has no effect with --server: only the flags "+
				"of the server itself apply", name)
			return nil, usageError{err}
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &connection{
		URL: f.server, HTTP: &http.Client{Transport: transport}, Key: f.key, Shadow: f.shadow,
		close: func() error { transport.CloseIdleConnections(); return nil },
	}, nil
}

// startLocal starts a server in this process. The server logs only warnings and errors, such as
// damaged sessions.
func (f *connectFlags) startLocal(c *cobra.Command) (*connection, error) {
	log, err := newLogger("console")
	if err != nil {
		return nil, err
	}
	log = log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	serving := serveFlags{model: f.model, data: f.data, models: append([]string{f.model.path},
		f.besides...)}
	if f.shadow != "" {
		serving.models = append(serving.models, f.shadow)
	}
	if f.session == "" {
		serving.data.dir = noDataDir
	}
	ring, err := serving.openKeys(c.Context(), zap.NewNop())
	if err != nil {
		return nil, err
	}
	models, err := serving.loadModels()
	if err != nil {
		return nil, err
	}
	o, err := serving.openSessions(c.Context(), models, nil, log)
	if errors.Is(err, storage.ErrInUse) {
		return nil, fmt.Errorf("%w; if a server uses the folder, give the server's URL with "+
			"--server", err)
	}
	if err != nil {
		return nil, err
	}
	if err := serving.checkOwners(o.sessions, ring, o.where); err != nil {
		return nil, errors.Join(err, o.close())
	}
	srv, err := server.New(o.sessions, server.Options{Keys: ring})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	l := newMemoryListener()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn,
			error) {
			return l.dial(ctx)
		},
	}
	end := func() error {
		drain, cancel := context.WithTimeout(context.Background(), localDrainMax)
		defer cancel()
		transport.CloseIdleConnections()
		return errors.Join(srv.Drain(drain), <-served, o.store.Close())
	}
	return &connection{
		URL: localURL, HTTP: &http.Client{Transport: transport}, Key: f.key, close: end,
		Shadow: models.second(),
	}, nil
}

// close closes the store and its session manager. It is used if an error occurs before the server
// starts.
func (o *opened) close() error {
	return errors.Join(o.sessions.Drain(context.Background()), o.store.Close())
}

// memoryListener accepts connections made by its own method dial, over pipes in memory. No other
// process can reach its server.
type memoryListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// dial returns a connection as soon as the server has accepted it.
func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	far, near := net.Pipe()
	select {
	case l.accepted <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
