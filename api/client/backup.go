package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// backupPatience is how long Backup retries while no byte arrives. The server keeps the backup file
// for a longer time.
const backupPatience = 30 * time.Second

// Backup writes all sessions to w as one file, which `lmserve restore` turns into a data folder. A
// server with API keys requires an admin's key. After a broken connection, Backup resumes the
// transfer, as long as bytes still arrive. The function told receives the number of bytes written
// so far and the size of the file. After an error, w has only a part of the file.
func (c *Client) Backup(
	ctx context.Context, w io.Writer, told func(done, total int64),
) error {
	b := &backup{client: c, w: w, told: told, moved: time.Now()}
	return persist(ctx, func(error, time.Duration) {}, func() (bool, error) {
		before := b.done
		err := b.fetch(ctx)
		if err != nil && time.Since(b.moved) > backupPatience {
			err = final{err}
		}
		if err != nil {
			err = fmt.Errorf("client: the backup failed after %d bytes: %w", b.done, err)
		}
		return b.done > before, err
	})
}

type backup struct {
	client      *Client
	w           io.Writer
	told        func(done, total int64)
	etag        string // ETag of the backup file; "" before the first answer
	done, total int64
	moved       time.Time
}

// fetch requests the part of the backup that w does not have yet.
func (b *backup) fetch(ctx context.Context) error {
	r := request(newBackupRequest(ctx, b.client.base, BackupParams{}))
	status := http.StatusOK
	if r.err == nil && b.etag != "" {
		status = http.StatusPartialContent
		r.Header.Set("If-Match", b.etag)
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", b.done))
	}
	answer, err := b.client.send(r, "application/x-tar")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != status {
		return final{fmt.Errorf("found status %d, expected %d", answer.StatusCode, status)}
	}
	if b.etag == "" {
		b.etag, b.total = answer.Header.Get("ETag"), answer.ContentLength
	}
	if _, err = io.Copy(b, answer.Body); err == nil && b.done != b.total {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Write implements io.Writer. After a failed write, Backup makes no further attempt.
func (b *backup) Write(p []byte) (int, error) {
	n, err := b.w.Write(p)
	b.done, b.moved = b.done+int64(n), time.Now()
	b.told(b.done, b.total)
	if err != nil {
		err = final{err}
	}
	return n, err
}
