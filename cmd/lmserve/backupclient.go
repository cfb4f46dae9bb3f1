package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lmserve/lmserve/api"
)

// How often a backup is gone on with that brings no byte, and how long it waits in between: less
// than a server keeps it.
const (
	backupTriesMax  = 6
	backupWaitFirst = 500 * time.Millisecond
)

type backupClient struct {
	server  string
	keyFile string
	key     string
	etag    string // of the backup under way; "": there is none yet
}

func (b *backupClient) findKey(ctx context.Context) error {
	if b.keyFile == "" {
		return nil
	}
	key, err := readBounded(ctx, b.keyFile)
	if err != nil {
		return fmt.Errorf("--key-file: %w", err)
	}
	b.key = strings.TrimSpace(string(key))
	return nil
}

// finalError is an answer that another try does not change.
type finalError struct{ error }

// copy writes a backup to w. A connection that is lost is made again, as long as bytes come.
func (b *backupClient) copy(ctx context.Context, w io.Writer, set func(done, total int64)) error {
	out := &progressWriter{ctx: ctx, w: w, set: set}
	wait := backupWaitFirst
	for try := 1; ; try++ {
		before := out.done
		err := b.fetch(ctx, out)
		var final finalError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &final):
			return final.error
		case out.done > before:
			try, wait = 1, backupWaitFirst
		case try >= backupTriesMax:
			return fmt.Errorf("after %d bytes: %w", out.done, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		wait *= 2
	}
}

// fetch asks for the backup, or for the rest of it.
func (b *backupClient) fetch(ctx context.Context, out *progressWriter) error {
	url := strings.TrimSuffix(b.server, "/") + "/v1/admin/backup"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return finalError{fmt.Errorf("--server: %w", err)}
	}
	if b.key != "" {
		r.Header.Set("Authorization", "Bearer "+b.key)
	}
	status := http.StatusOK
	if b.etag != "" {
		status = http.StatusPartialContent
		r.Header.Set("If-Match", b.etag)
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", out.done))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != status {
		return refused(resp)
	}
	if b.etag == "" {
		b.etag, out.total = resp.Header.Get("ETag"), resp.ContentLength
	}
	final := writerFunc(func(p []byte) (n int, err error) {
		if n, err = out.Write(p); err != nil {
			err = finalError{err} // what cannot be written is not fetched again
		}
		return n, err
	})
	if _, err = io.Copy(final, resp.Body); err == nil && out.done != out.total {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// refused is the error of an answer that is no backup. A server that is busy or away may come back.
func refused(resp *http.Response) error {
	var p api.Problem
	err := fmt.Errorf("the server answered %s", resp.Status)
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&p) == nil && p.Title != "" {
		err = fmt.Errorf("the server answered %s: %s", resp.Status, p.Title)
		if p.Detail != nil {
			err = fmt.Errorf("%w: %s", err, *p.Detail)
		}
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return err
	}
	return finalError{err}
}
