package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type chromium struct {
	t    *testing.T
	path string
}

func findChromium(t *testing.T) chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium is installed (package chromium of Debian)")
	}
	return chromium{t, path}
}

func (c chromium) start(ctx context.Context, args ...string) *exec.Cmd {
	c.t.Helper()
	all := append([]string{"--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir=" + c.t.TempDir(),
		"--host-resolver-rules=MAP evil.example 127.0.0.1"}, args...)
	command := exec.CommandContext(ctx, c.path, all...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	require.NoError(c.t, command.Start())
	return command
}

// visit serves an HTML page and opens the page in the browser. It returns the body that the page
// posts to /done.
func (c chromium) visit(page func(origin string) string) string {
	c.t.Helper()
	done := make(chan string, 1)
	site := httptest.NewUnstartedServer(nil)
	text := page("http://" + site.Listener.Addr().String())
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/done" {
			found, _ := io.ReadAll(r.Body)
			done <- string(found)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, text)
	})
	site.Start()
	defer site.Close()
	ctx, end := context.WithTimeout(c.t.Context(), time.Minute)
	defer end()
	browser := c.start(ctx, site.URL)
	defer func() {
		end()
		_ = browser.Wait() // Wait fails because end stopped the browser.
	}()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
		c.t.Fatal("the page did not come to its end")
		return ""
	}
}
