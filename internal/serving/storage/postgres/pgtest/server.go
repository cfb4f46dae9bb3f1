// Package pgtest runs a PostgreSQL server for tests, in a temporary folder and on a Unix socket. It
// uses the PostgreSQL programs that are installed on the system. A test can kill the server at any
// moment and start it again, and can cut the connection to a client (Proxy).
package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
)

const (
	role     = "lmserve"
	port     = "5432" // part of the socket's name
	socket   = ".s.PGSQL." + port
	startMax = 30 * time.Second
)

// binaries is a pattern for the folders in which Debian has the programs of PostgreSQL. Other
// systems have them in PATH.
const binaries = "/usr/lib/postgresql/*/bin"

// faketime is a pattern for the path of libfaketime on Debian. This library gives a program a false
// time.
const faketime = "/usr/lib/*/faketime/libfaketime.so.1"

// Server is a PostgreSQL server.
type Server struct {
	dir     string
	bin     string
	command []string // prefix of a command line that runs the command as another user

	environment []string // prefix of a command line that sets environment variables; may be nil

	mu      sync.Mutex
	running *exec.Cmd
	ended   chan struct{}

	databases atomic.Int64
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Main runs the tests of a package, and ends the server that Shared has started.
func Main(run func() int) int {
	code := run()
	if shared.server != nil {
		if err := shared.server.End(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Shared returns the server that the tests of a package share. The package's TestMain must call
// Main, which ends the server. If the environment variable LMSERVE_TEST_POSTGRES is empty, Shared
// skips the test.
func Shared(t testing.TB) *Server {
	bin := installed(t)
	shared.once.Do(func() { shared.server, shared.err = start(bin) })
	require.NoError(t, shared.err)
	return shared.server
}

// New starts a server for one test. The test may kill the server.
func New(t testing.TB) *Server {
	s, err := start(installed(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.End()) })
	return s
}

// NewClocked starts a server whose clock the test can set with SetClock. If libfaketime is not
// installed, clocked is false, and the server uses the real time.
func NewClocked(t testing.TB) (s *Server, clocked bool) {
	s = New(t)
	found, _ := filepath.Glob(faketime)
	if len(found) == 0 {
		return s, false
	}
	require.NoError(t, s.SetClock(0))
	// The command env sets the variables only for the server. If setpriv loaded the library, it
	// would create semaphores as root, and the server could not use them.
	s.environment = []string{"env", "LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" +
		s.clock(),
		"FAKETIME_NO_CACHE=1", "FAKETIME_DISABLE_SHM=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
	s.Kill()
	require.NoError(t, s.Start())
	return s, true
}

// SetClock sets the clock of a server from NewClocked to the real time plus the duration later.
func (s *Server) SetClock(later time.Duration) error {
	said := fmt.Sprintf("%+.3f\n", later.Seconds())
	// All users may read the file, because another user runs the server.
	if err := os.WriteFile(s.clock()+".tmp", []byte(said), 0o644); err != nil {
		return err
	}
	return os.Rename(s.clock()+".tmp", s.clock())
}

func (s *Server) clock() string { return filepath.Join(s.dir, "clock") }

func installed(t testing.TB) string {
	if os.Getenv("LMSERVE_TEST_POSTGRES") == "" {
		t.Skip("make test-postgres starts a PostgreSQL server")
	}
	found, _ := filepath.Glob(filepath.Join(binaries, "initdb"))
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	path, err := exec.LookPath("initdb")
	if err == nil {
		return filepath.Dir(path)
	}
	t.Fatalf("PostgreSQL is not installed, expected initdb in %s or in the path", binaries)
	return ""
}

func start(bin string) (*Server, error) {
	parent := "" // prefer a folder in memory, which is faster than a disk
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	dir, err := program.Folder(cmp.Or(parent, os.TempDir()), "lmserve-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	if err := s.unprivileged(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	made := s.program("initdb", "-D", s.data(), "-U", role, "-A", "trust", "--no-sync", "-E",
		"UTF8", "--locale=C")
	if out, err := made.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// unprivileged makes the programs run as the user postgres if this process runs as root, because
// PostgreSQL refuses to run as root.
func (s *Server) unprivileged() error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	s.command = []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups",
		"--pdeathsig=KILL"}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) program(name string, args ...string) *exec.Cmd {
	all := slices.Concat(s.command, s.environment, []string{filepath.Join(s.bin, name)}, args)
	c := program.Command(all[0], all[1:]...)
	c.Dir = s.dir
	return c
}

// Start starts the server, and waits until it accepts connections.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(startMax)
	for {
		c := s.program("postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=",
			"-c", "shared_buffers=16MB", "-c", "max_connections=200",
			// With mmap, a killed server leaves its shared memory only in its folder.
			"-c", "dynamic_shared_memory_type=mmap")
		log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
			0o600)
		if err != nil {
			return err
		}
		c.Stdout, c.Stderr = log, log
		err = errors.Join(c.Start(), log.Close())
		if err != nil {
			return err
		}
		s.running, s.ended = c, make(chan struct{})
		go func(ended chan struct{}) {
			_ = c.Wait() // an error is normal: the server is usually killed
			close(ended)
		}(s.ended)
		if s.awaitLocked(deadline) {
			return nil
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("PostgreSQL has not started: %s", said)
		}
		// Try again: the server may have ended because files of the previous server were still
		// there.
		s.killLocked()
	}
}

// awaitLocked waits until the server accepts connections. It returns false if the server ends
// first, or does not accept connections before the deadline.
func (s *Server) awaitLocked(deadline time.Time) bool {
	for time.Now().Before(deadline) {
		select {
		case <-s.ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// Kill kills all processes of the server at once. Unlike a power cut, it loses no unsynced writes.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
}

func (s *Server) killLocked() {
	pid := s.running.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	_ = s.running.Process.Kill()
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			if p, err := os.FindProcess(n); err == nil {
				_ = p.Kill()
			}
		}
	}
	<-s.ended
}

// End ends the server for good, and removes its folder.
func (s *Server) End() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// URL returns the URL of a database of the server.
func (s *Server) URL(database string) string { return urlOf(s.dir, database) }

func urlOf(dir, database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%s", role, database, dir, port)
}

// Database makes an empty database, and returns its name.
func (s *Server) Database(t testing.TB) string {
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(t, "postgres", "create database "+name)
	return name
}

// Exec runs a statement in a database.
func (s *Server) Exec(t testing.TB, database, sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, errors.Join(err, conn.Close(ctx)))
}
