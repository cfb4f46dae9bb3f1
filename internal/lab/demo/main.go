// Command demo shows lmserve as a client sees it, over HTTP. It starts a server on a free port and
// opens the server's web page. It feeds three texts to sessions: a server's log with an incident, a
// novel, and source code.
//
// The terminal shows the bits per byte of a static and an adapting model, each with and without a
// companion. It also shows the strange lines of the log. On a terminal the texts are fed slowly,
// and the server runs until Ctrl-C. Elsewhere the texts are fed at full speed, and the program ends
// after them.
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

// run runs the demo. If the parameter `watched` is true, run opens the web page, limits the speed,
// and runs until an interrupt.
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
	if ctx.Err() != nil { // Ctrl-C is the normal end of the demo.
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
		// Errors are ignored, because the user can open the printed address.
		_ = browser.OpenURL(address(url, all[0]))
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

func address(url string, s *stream) string { return url + "/#/read/" + s.name }

// continuations prints completions of one prompt by two sessions: a new session, and the session
// that has read the stream's text.
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

type server struct {
	url     string
	command *exec.Cmd
}

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
	// Errors are ignored, because Wait returns the reason if the server has already ended.
	_ = s.command.Process.Signal(syscall.SIGTERM)
	return s.command.Wait()
}
