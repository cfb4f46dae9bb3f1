package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const healthBytesMax = 4 << 10

type healthFlags struct {
	server  string
	timeout time.Duration
}

func newHealth() *cobra.Command {
	var f healthFlags
	c := &cobra.Command{
		Use:   "health",
		Short: "Check whether a server accepts work",
		Long: `Ask a server whether it accepts work (path /readyz), and print the answer. The exit
code is 0 if the server accepts work, and 1 if it does not or cannot be reached. The
check needs no key, and suits containers without a shell.

For a loopback address, any certificate is accepted, because no secret is sent.`,
		Example: `  lmserve health
  lmserve health --server https://127.0.0.1:8443 --timeout 2s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.ask(c) },
	}
	c.Flags().StringVar(&f.server, "server", "http://127.0.0.1:8080", "URL of the server")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Second,
		"maximum time for the server's answer")
	return c
}

// ask prints the server's answer. It returns an error if the server accepts no work.
func (f *healthFlags) ask(c *cobra.Command) error {
	at, err := url.Parse(f.server)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return usagef("--server is %q, expected a URL such as http://127.0.0.1:8080", f.server)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: loopback(at.Hostname())}
	client := http.Client{Transport: transport, Timeout: f.timeout}
	defer transport.CloseIdleConnections()
	ready := at.JoinPath("readyz").String()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, ready, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, healthBytesMax))
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), strings.TrimSpace(string(said)))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s, expected %d", req.URL, res.Status, http.StatusOK)
	}
	return nil
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
