// Command demo shows lmserve at work, over HTTP as any client would. It starts a server on a free
// port, streams a bundled log through a session, and prints the session's bits per character chunk
// by chunk, with those of the static model beside them. Before and after, it completes the same
// prompt.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

//go:embed access.log
var log []byte

// prompt is how a line of the log begins; both completions continue it
// greedily.
const (
	prompt           = "2026-"
	completionTokens = 76
)

func main() {
	binary := flag.String("lmserve", "bin/lmserve", "path of the lmserve binary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string) error {
	url, stop, err := startServer(ctx, binary)
	if err != nil {
		return err
	}
	err = session(ctx, url)
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	return err
}

// startServer runs `lmserve serve` on a free port and waits until the server prints its address.
func startServer(ctx context.Context, binary string) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--log-format", "none", "--data-dir", "none")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // if the process has ended already, Wait says why
		return cmd.Wait()
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("the server did not start: %w", stop())
	}
	fmt.Print("$ lmserve serve --listen 127.0.0.1:0\n", first, "\n")
	return "http://" + strings.TrimSpace(first[strings.LastIndex(first, "http://")+len("http://"):]), stop, nil
}

func session(ctx context.Context, url string) error {
	var s struct{ ID string }
	if err := post(ctx, url+"/v1/sessions", map[string]any{"seed": 1, "settings": map[string]any{"baseline": true}}, &s); err != nil {
		return err
	}
	before, err := complete(ctx, url, s.ID)
	if err != nil {
		return err
	}
	fmt.Printf("Streaming %d bytes of a server's log through session %s.\n", len(log), s.ID)
	fmt.Println("Bits per character as the static model (.) and the adapting one (#) see it, chunk by chunk,")
	fmt.Println("from the second kilobyte on a line a kilobyte:")
	fmt.Println()
	if err := score(ctx, url, s.ID); err != nil {
		return err
	}
	after, err := complete(ctx, url, s.ID)
	if err != nil {
		return err
	}
	fmt.Printf("\nThe likeliest continuation of %q\n\nbefore the stream:\n%s\nafter it:\n%s\n", prompt, indent(before), indent(after))
	return nil
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(prompt+text, "\n"), "\n", "\n    ") + "\n"
}

// post sends JSON and reads JSON. If the answer's status is not one of success, the error has the
// text of the problem document.
func post(ctx context.Context, url string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	res, err := send(ctx, url, "application/json", "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(answer)
}

func send(ctx context.Context, url, contentType, accept string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		return nil, fmt.Errorf("POST %s: %s: %s", url, res.Status, text)
	}
	return res, nil
}

func complete(ctx context.Context, url, id string) (string, error) {
	var c struct{ Text string }
	err := post(ctx, url+"/v1/sessions/"+id+"/complete",
		map[string]any{"prompt": prompt, "max_tokens": completionTokens, "temperature": 0}, &c)
	return c.Text, err
}

// event holds the fields of a score's events that the demo uses.
type event struct {
	Type         string
	Bytes        int64
	Bits         float64
	BaselineBits float64 `json:"baseline_bits"`
	Totals       struct {
		Bytes       int64
		BPC         float64
		BaselineBPC float64 `json:"baseline_bpc"`
	}
	Problem json.RawMessage
}

const kilobyte = 1024

// score streams the log and prints lines as events arrive: every chunk of the
// first kilobyte, then the sum of each kilobyte.
func score(ctx context.Context, url, id string) error {
	res, err := send(ctx, url+"/v1/sessions/"+id+"/score", "text/plain; charset=utf-8", "application/x-ndjson", bytes.NewReader(log))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	fmt.Printf("%10s%9s%10s\n", "offset", "static", "adaptive")
	var sum event
	for d := json.NewDecoder(res.Body); ; {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		switch e.Type {
		case "error":
			return fmt.Errorf("score: %s", e.Problem)
		case "summary":
			fmt.Printf("%10s%9.3f%10.3f\n", "all", e.Totals.BaselineBPC, e.Totals.BPC)
			continue
		}
		sum.Bytes, sum.Bits, sum.BaselineBits = sum.Bytes+e.Bytes, sum.Bits+e.Bits, sum.BaselineBits+e.BaselineBits
		if e.Totals.Bytes <= kilobyte || sum.Bytes >= kilobyte || e.Totals.Bytes == int64(len(log)) {
			printLine(e.Totals.Bytes-sum.Bytes, sum)
			sum = event{}
		}
	}
}

// printLine draws both numbers on one line: # up to the adaptive one, a
// dot at the static one.
func printLine(offset int64, e event) {
	const perBit = 8
	static, adaptive := e.BaselineBits/float64(e.Bytes), e.Bits/float64(e.Bytes)
	bar := []byte(strings.Repeat("#", int(adaptive*perBit)))
	for len(bar) <= int(static*perBit) {
		bar = append(bar, ' ')
	}
	bar[int(static*perBit)] = '.'
	fmt.Printf("%10d%9.3f%10.3f  %s\n", offset, static, adaptive, bar)
}
