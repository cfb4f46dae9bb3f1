package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

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
	_ = s.command.Process.Signal(syscall.SIGTERM) // if the process has ended already, Wait says why
	return s.command.Wait()
}
