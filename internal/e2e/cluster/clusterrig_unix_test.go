//go:build unix

package cluster

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

// leaseOfFaults is the lease of the servers that suffer faults: the shortest lease that servers
// accept.
const leaseOfFaults = time.Second

type clusterRig struct {
	t        *testing.T
	began    time.Time
	program  string
	weights  string
	database *pgtest.Server
	clocked  bool
	objects  *refusing
	isles    *isles // network namespaces; nil if the servers share one network
	nodes    []*disturbed
}

type disturbed struct {
	node
	proxy *pgtest.Proxy
	one   sync.Mutex
}

type refusing struct {
	http.Handler
	refuses atomic.Bool
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.refuses.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.Handler.ServeHTTP(w, req)
}

func newClusterRig(t *testing.T) *clusterRig {
	c := &clusterRig{t: t, began: time.Now()}
	c.database, c.clocked = pgtest.NewClocked(t)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r",
	} {
		t.Setenv(name, value)
	}
	folder := t.TempDir()
	c.program = program.Built(t, program.AsTested(t, "s3")...)
	var err error
	c.weights, err = modeltest.SmallFile(folder)
	require.NoError(t, err)

	c.isles = newIsles(t, 3)
	memory := s3mem.New()
	require.NoError(t, memory.CreateBucket("states"))
	c.objects = &refusing{Handler: gofakes3.New(memory).Server()}
	bucket := httptest.NewUnstartedServer(c.objects)
	require.NoError(t, bucket.Listener.Close())
	bucket.Listener, err = net.Listen("tcp", net.JoinHostPort(c.isles.host(), "0"))
	require.NoError(t, err)
	bucket.Start()
	t.Cleanup(bucket.Close)
	query := url.Values{"endpoint": {bucket.URL}, "use_path_style": {"true"}}
	objects := "s3://states?" + query.Encode()

	name := c.database.Database(t)
	program.Must(t, c.program, "migrate", "--store", c.database.URL(name))
	for i := range 3 {
		n := &disturbed{proxy: pgtest.NewProxyOn(t, c.database, net.JoinHostPort(c.isles.host(),
			"0"))}
		at := c.isles.address(t, i)
		n.node = node{t: t, name: fmt.Sprint("n", i), url: "http://" + at, in: c.isles.enter(i)}
		n.args = []string{"serve", "--listen", at, "--insecure", "--advertise", n.url, "--node",
			n.name,
			"--lease", leaseOfFaults.String(), "--store", n.proxy.URL(name), "--objects", objects,
			"--model", c.weights, "--threads", "1", "--log-format", "json", "--drain-timeout",
			"20s",
			"--data-dir", filepath.Join(folder, n.name)}
		n.start(c.program)
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.alive.Kill()
			<-n.alive.End
			if t.Failed() {
				t.Logf("%s has complained: %s", n.name, complaints(n.alive.Stderr.String()))
			}
		}
	})
	return c
}

func (c *clusterRig) now() time.Duration { return time.Since(c.began) }

func complaints(log string) string {
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `"level":"info"`)
	})
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// again starts the server again, and retries until the server serves. A start fails while the
// database is unreachable.
func (n *disturbed) again(lmserve string) {
	require.Eventually(n.t, func() bool { return n.begin(lmserve) }, time.Minute,
		100*time.Millisecond)
}

func (n *disturbed) killFor(lmserve string, d time.Duration) {
	n.alive.Kill()
	<-n.alive.End
	time.Sleep(d)
	n.again(lmserve)
}

func (n *disturbed) stopFor(d time.Duration) {
	require.NoError(n.t, n.alive.System.Signal(syscall.SIGSTOP))
	time.Sleep(d)
	require.NoError(n.t, n.alive.System.Signal(syscall.SIGCONT))
}

func (n *disturbed) restart(lmserve string) {
	n.alive.Terminate()
	<-n.alive.End
	n.again(lmserve)
}

// isles are network namespaces, one for each server, connected by a bridge. Packets to a server
// that is cut off are lost, and the sender gets no error.
type isles struct{ bridge, net string }

// newIsles creates n network namespaces. It returns nil if the process may not create them, for
// example without root.
func newIsles(t *testing.T, n int) *isles {
	if os.Getuid() != 0 {
		t.Log("servers without networks of their own: this process is not root's")
		return nil
	}
	left, _ := filepath.Glob("/sys/class/net/lms*") // Killed tests may have left networks.
	for _, bridge := range left {
		var pid int
		was := &isles{bridge: filepath.Base(bridge)}
		if _, err := fmt.Sscanf(was.bridge+" ", "lms%d ", &pid); err == nil && !program.Runs(pid) {
			was.remove(n)
		}
	}
	id := os.Getpid() % 10_000
	s := &isles{fmt.Sprint("lms", os.Getpid()), fmt.Sprintf("10.%d.%d", 100+id%100, id/100)}
	t.Cleanup(func() { s.remove(n) })
	err := ip("link", "add", s.bridge, "type", "bridge")
	for _, command := range [][]string{
		{"addr", "add", s.host() + "/24", "dev", s.bridge}, {"link", "set", s.bridge, "up"},
	} {
		if err == nil {
			err = ip(command...)
		}
	}
	for i := range n {
		for _, command := range [][]string{
			{"netns", "add", s.name(i)},
			{"link", "add", s.cable(i), "type", "veth", "peer", "name", "eth0", "netns", s.name(i)},
			{"link", "set", s.cable(i), "master", s.bridge, "up"},
			{"-n", s.name(i), "addr", "add", s.of(i) + "/24", "dev", "eth0"},
			{"-n", s.name(i), "link", "set", "eth0", "up"},
			{"-n", s.name(i), "link", "set", "lo", "up"},
		} {
			if err == nil {
				err = ip(command...)
			}
		}
	}
	if err != nil {
		t.Log("servers without networks of their own:", err)
		return nil
	}
	return s
}

func (s *isles) remove(n int) {
	for i := range n {
		_ = ip("netns", "del", s.name(i))
		_ = ip("link", "del", s.cable(i))
	}
	_ = ip("link", "del", s.bridge)
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (s *isles) name(i int) string  { return fmt.Sprint(s.bridge, "-", i) }
func (s *isles) cable(i int) string { return fmt.Sprint(s.bridge, "v", i) }
func (s *isles) of(i int) string    { return fmt.Sprint(s.net, ".", i+1) }

func (s *isles) host() string {
	if s == nil {
		return "127.0.0.1"
	}
	return s.net + ".254"
}

func (s *isles) address(t *testing.T, i int) string {
	if s == nil {
		return freeAddress(t)
	}
	return net.JoinHostPort(s.of(i), "8080")
}

// enter returns the command prefix that runs a server in its network namespace.
func (s *isles) enter(i int) []string {
	if s == nil {
		return nil
	}
	return []string{"ip", "netns", "exec", s.name(i)}
}

func (s *isles) cutFor(t *testing.T, i int, d time.Duration) {
	require.NoError(t, ip("link", "set", s.cable(i), "down"))
	time.Sleep(d)
	require.NoError(t, ip("link", "set", s.cable(i), "up"))
}
