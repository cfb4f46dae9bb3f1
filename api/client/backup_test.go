package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

type answering func(r *http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

var errCut = errors.New("the connection is cut")

func backupOf(content string, bytesEach int) answering {
	return func(r *http.Request) (*http.Response, error) {
		status, from := http.StatusOK, 0
		if r.Header.Get("If-Match") == `"it"` {
			status = http.StatusPartialContent
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil {
				return nil, err
			}
		}
		rest := content[from:]
		var body io.Reader = strings.NewReader(rest)
		if len(rest) > bytesEach {
			body = io.MultiReader(strings.NewReader(rest[:bytesEach]), iotest.ErrReader(errCut))
		}
		return &http.Response{
			StatusCode: status, Header: http.Header{"Etag": {`"it"`}},
			ContentLength: int64(len(rest)), Body: io.NopCloser(body),
		}, nil
	}
}

func newClientOf(t *testing.T, a answering) *client.Client {
	t.Helper()
	c, err := client.New("http://localhost", client.WithHTTPClient(&http.Client{Transport: a}))
	require.NoError(t, err)
	return c
}

func TestBackupResumesWhereConnectionWasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content, got := strings.Repeat("all sessions ", 100), &bytes.Buffer{}
		var at, of int64
		err := newClientOf(t, backupOf(content, 100)).Backup(t.Context(), got,
			func(done, total int64) { at, of = done, total })
		require.NoError(t, err)
		require.Equal(t, content, got.String())
		require.EqualValues(t, len(content), at)
		require.Equal(t, at, of)
	})
}

func TestBackupIsGivenUp(t *testing.T) {
	refusal := func(status int) answering {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: http.NoBody}, nil
		}
	}
	first := backupOf("all sessions", 5)
	for name, c := range map[string]struct {
		server answering
		to     io.Writer
		want   string
		waits  bool
	}{
		"no server": {
			func(*http.Request) (*http.Response, error) { return nil, errCut },
			io.Discard, "after 0 bytes: ", true,
		},
		"it does not come back": {
			func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Range") != "" {
					return refusal(http.StatusServiceUnavailable)(r)
				}
				return first(r)
			}, io.Discard, "after 5 bytes: the server answers 503", true,
		},
		"it has ended": {
			func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Range") != "" {
					return refusal(http.StatusPreconditionFailed)(r)
				}
				return first(r)
			}, io.Discard, "after 5 bytes: the server answers 412", false,
		},
		"another file": {
			func(r *http.Request) (*http.Response, error) {
				r.Header.Del("If-Match")
				return first(r)
			}, io.Discard, "after 5 bytes: found status 200, expected 206", false,
		},
		"nowhere to write": {first, failing{}, "after 0 bytes: the disk is full", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := newClientOf(t, c.server).Backup(t.Context(), c.to, func(_, _ int64) {})
				require.ErrorContains(t, err, "client: the backup failed "+c.want)
				took := time.Since(begin)
				require.Less(t, took, time.Minute)
				require.Equal(t, c.waits, took > 20*time.Second, "it took %v", took)
			})
		})
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
