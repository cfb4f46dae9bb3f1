// Command demo shows lmserve at work, over HTTP like any client. It starts a server on a free
// port, opens its page, and feeds three texts to sessions at a readable pace: a server's log with
// an incident, a novel, and source code. The terminal shows the costs of the texts under the
// static and the adapting model, each with and without a companion of counts. It also shows the
// strange lines of the log. On a terminal the server runs until Ctrl-C. Elsewhere the texts come
// at full speed, and the program ends after them.
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cli/browser"
	"golang.org/x/term"

	"github.com/lmserve/lmserve/api/client"
)

func main() {
	binary := flag.String("lmserve", "bin/lmserve", "path of the lmserve binary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	watched := os.Getenv("CI") == "" &&
		term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	if err := run(ctx, *binary, watched); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run runs the demo. If watched, it opens the page, limits the pace, and runs until it is
// interrupted.
func run(ctx context.Context, binary string, watched bool) error {
	all, err := streams()
	if err != nil {
		return err
	}
	s, err := start(ctx, binary)
	if err != nil {
		return err
	}
	err = cmp.Or(show(ctx, s.url, all, watched), s.stop())
	if ctx.Err() != nil { // Ctrl-C is the normal end
		return nil
	}
	return err
}

func show(ctx context.Context, url string, all []*stream, watched bool) error {
	c, err := client.New(url)
	if err != nil {
		return err
	}
	fmt.Printf("Pages that show texts as they are read:\n")
	for _, s := range all {
		if err := s.prepare(ctx, c); err != nil {
			return err
		}
		fmt.Printf("    %-43s  %s\n", address(url, s), s.title)
	}
	if watched {
		browser.Stdout, browser.Stderr = io.Discard, io.Discard
		_ = browser.OpenURL(address(url, all[0])) // the user can also open the printed address
	}
	if err := feed(ctx, c, all, watched); err != nil {
		return err
	}
	if err := continuations(ctx, c, all[0]); err != nil || !watched {
		return err
	}
	fmt.Printf("\nThe server stays at %s/ until Ctrl-C.\n", url)
	<-ctx.Done()
	return nil
}

// address returns the address of the page that shows a stream.
func address(url string, s *stream) string { return url + "/#/read/" + s.name }

// continuations completes the same prompt with and without the stream's text before it.
func continuations(ctx context.Context, c *client.Client, s *stream) error {
	fresh, err := c.CreateSession(ctx, client.SessionRequest{})
	if err != nil {
		return err
	}
	prompt, tokens, temperature := "2026-", 76, 0.0
	r := client.CompletionRequest{Prompt: &prompt, MaxTokens: &tokens, Temperature: &temperature}
	fmt.Printf("\nThe likeliest continuation of %q\n", prompt)
	for _, after := range []struct{ what, session string }{
		{"of a model that has read nothing", fresh.ID}, {"after " + s.name, s.name},
	} {
		completion, err := c.Complete(ctx, after.session, r)
		if err != nil {
			return err
		}
		fmt.Printf("  %s:\n    %s%q\n", after.what, prompt, completion.Text)
	}
	return nil
}

// server is an `lmserve serve` that the demo has started.
type server struct {
	url     string
	command *exec.Cmd
}

// start runs `lmserve serve` on a free port, and waits until the server prints its address.
func start(ctx context.Context, binary string) (server, error) {
	cmd := exec.CommandContext(ctx, binary, "serve",
		"--listen", "127.0.0.1:0", "--log-format", "none", "--data-dir", "none")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return server{}, err
	}
	if err := cmd.Start(); err != nil {
		return server{}, err
	}
	s := server{command: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "http://")
	if err != nil || !found {
		return server{}, fmt.Errorf("the server did not start: %w", s.stop())
	}
	fmt.Print("$ lmserve serve --listen 127.0.0.1:0\n", line, "\n")
	s.url = "http://" + address
	return s, nil
}

func (s server) stop() error {
	_ = s.command.Process.Signal(syscall.SIGTERM) // Wait returns the reason of an earlier end
	return s.command.Wait()
}
